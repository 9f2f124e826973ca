"""`unified-profiler export`: writes a trace to a file for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unified_profiler.cli.traces import CycleOption, RankOption, RunPath, read_selected, working
from unified_profiler.errors import ConfigurationError


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
) -> None:
    """Write a trace as .json or .json.gz (Perfetto, chrome://tracing), .parquet or .csv.

    A .json, .json.gz or .csv file can contain several ranks and cycles; a .parquet file contains one trace.

    [bold]Examples[/bold]

      unified-profiler export profile trace.json.gz

      unified-profiler export profile job.json.gz --all-ranks

      unified-profiler export profile rank3.parquet --rank 3 --cycle 0

      unified-profiler export kineto.pt.trace.json events.csv
    """
    from unified_profiler.export import write

    if all_ranks and rank is not None:
        msg = "--all-ranks and --rank cannot be combined: leave one out."
        raise ConfigurationError(msg)
    with working(f"Writing {out}"):
        selected = read_selected(run, rank=rank, cycle=cycle, one_clock=all_ranks)
        write(selected, out)
    events = sum(trace.info.event_count for trace in selected.traces)
    typer.echo(f"{out}: {events} events, {out.stat().st_size / 1e6:.1f} MB")
