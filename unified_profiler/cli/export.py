"""`unified-profiler export`: writes a trace to a file for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unified_profiler.cli.overlays import CriticalPathOption, overlays_of
from unified_profiler.cli.traces import CycleOption, RankOption, RunPath, read_selected, working
from unified_profiler.errors import ConfigurationError

if TYPE_CHECKING:
    from unified_profiler.model.run import Run


def export(
    run: RunPath,
    out: Annotated[Path, typer.Argument(help="The file to write; its suffix selects the format.")],
    *,
    rank: RankOption = None,
    cycle: CycleOption = None,
    all_ranks: Annotated[
        bool,
        typer.Option("--all-ranks", help="Put all ranks into one timeline, one process per rank, with aligned clocks."),
    ] = False,
    critical_path: CriticalPathOption = False,
) -> None:
    """Write a trace as .json or .json.gz (Perfetto, chrome://tracing), .parquet or .csv.

    A .json, .json.gz or .csv file can contain several ranks and cycles; a .parquet file contains one trace.

    [bold]Examples[/bold]

      unified-profiler export profile trace.json.gz

      unified-profiler export profile job.json.gz --all-ranks

      unified-profiler export profile trace.json.gz --critical-path

      unified-profiler export profile rank3.parquet --rank 3 --cycle 0

      unified-profiler export kineto.pt.trace.json events.csv
    """
    if all_ranks and rank is not None:
        msg = "--all-ranks and --rank cannot be combined: leave one out."
        raise ConfigurationError(msg)
    with working(f"Writing {out}"):
        selected = read_selected(run, rank=rank, cycle=cycle, one_clock=all_ranks)
        _write(selected, out, critical_path=critical_path)
    events = sum(trace.info.event_count for trace in selected.traces)
    typer.echo(f"{out}: {events} events, {out.stat().st_size / 1e6:.1f} MB")


def _write(run: Run, out: Path, *, critical_path: bool) -> None:
    from unified_profiler.export import write
    from unified_profiler.export.chrome import ChromeExporter
    from unified_profiler.export.writing import writing_to

    if not critical_path:
        write(run, out)
        return
    if not out.name.lower().endswith((".json", ".json.gz")):
        msg = f"--critical-path needs a timeline: a file that ends with .json or .json.gz; found {out}."
        raise ConfigurationError(msg)
    exporter = ChromeExporter(
        compressed=out.name.lower().endswith(".gz"), overlays=overlays_of(run, critical_path=critical_path)
    )
    with writing_to(out):
        exporter.write(run.traces, out)
