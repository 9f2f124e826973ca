"""Defines the option for a user's own map of operators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unified_profiler.model.run import Run

OpMapOption = Annotated[Path | None, typer.Option("--op-map", help="TOML file that maps native names to operators.")]


def mapped(run: Run, op_map: Path | None) -> Run:
    """Return the run with the user's map applied, if there is one."""
    if op_map is None:
        return run
    from unified_profiler.analysis import with_op_map

    return with_op_map(run, op_map)
