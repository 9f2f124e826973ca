"""The option `--critical-path` of the commands that show a timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unified_profiler.export.overlays import Overlay
    from unified_profiler.model.run import Run

CriticalPathOption = Annotated[
    bool, typer.Option("--critical-path", help="Show the critical path of each step above the events.")
]


def overlays_of(run: Run, *, critical_path: bool) -> list[Overlay]:
    """Return what is shown above the events of a run: its critical path, if wanted."""
    if not critical_path:
        return []
    from unified_profiler.analysis.critical_path import critical_path as path_of
    from unified_profiler.export.overlays import Overlay

    table = path_of(run).table
    lanes = table.column("lane").cast("string").fill_null("not recorded")
    return [Overlay(table.set_column(table.schema.get_field_index("lane"), "lane", lanes))]
