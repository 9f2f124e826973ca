"""`unified-profiler export`: writes a trace to a file for other programs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unified_profiler.cli.language import LanguageOption, language_of
from unified_profiler.cli.next_command import next_command
from unified_profiler.cli.output import show_lines
from unified_profiler.cli.overlays import CriticalPathOption, overlays_of
from unified_profiler.cli.traces import DEFAULT_RUN, CycleOption, RankOption, RunPath, read_selected, working
from unified_profiler.errors import ConfigurationError

if TYPE_CHECKING:
    from unified_profiler.model.run import Run


_TIMELINES = (".json", ".json.gz")


def export(
    run: RunPath = DEFAULT_RUN,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The file to write; its suffix selects the format.")
    ] = None,
    *,
    out: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="The same as FILE.")] = None,
    rank: RankOption = None,
    cycle: CycleOption = None,
    all_ranks: Annotated[
        bool,
        typer.Option("--all-ranks", help="Put all ranks into one timeline, one process per rank, with aligned clocks."),
    ] = False,
    critical_path: CriticalPathOption = False,
    language: LanguageOption = None,
) -> None:
    """Write a trace as .json or .json.gz (Perfetto, chrome://tracing), .parquet or .csv.

    A .json, .json.gz or .csv file can contain several ranks and cycles; a .parquet file contains one trace.

    Examples:
      unified-profiler export profile trace.json.gz
      unified-profiler export -o trace.json.gz
      unified-profiler export profile job.json.gz --all-ranks
      unified-profiler export profile trace.json.gz --critical-path
      unified-profiler export profile rank3.parquet --rank 3 --cycle 0
      unified-profiler export kineto.pt.trace.json events.csv
    """
    if all_ranks and rank is not None:
        msg = "--all-ranks and --rank cannot be combined: leave one out."
        raise ConfigurationError(msg)
    run, target = _target(run, file, out)
    from unified_profiler.presentation.texts import render_text

    spoken = language_of(language)
    with working("writing", language=spoken, file=str(target)):
        selected = read_selected(run, rank=rank, cycle=cycle, one_clock=all_ranks, language=spoken)
        _write(selected, target, critical_path=critical_path)
    events = sum(trace.info.event_count for trace in selected.traces)
    sizes = {"event_count": events, "size_bytes": target.stat().st_size}
    show_lines([f"{target}: {render_text('export.written', sizes, language=spoken)}"])
    if target.name.lower().endswith(_TIMELINES) and find_spec("viztracer") is not None:
        show_lines([next_command("view", "view", run, language=spoken)])


def _target(run: str, file: Path | None, out: Path | None) -> tuple[str, Path]:
    """Return the run and the file: of a single argument that is no run, the file."""
    if file is None and out is None:
        if not Path(run).exists():
            return DEFAULT_RUN, Path(run)
        msg = (
            f"Give the file to write as well, such as `unified-profiler export {run} trace.json.gz`: {run} exists, so "
            f"it is the run to read. To overwrite it: `unified-profiler export -o {run}`."
        )
        raise ConfigurationError(msg)
    if file is not None and out is not None:
        msg = f"Give one file to write; found {file} and {out}."
        raise ConfigurationError(msg)
    return run, file or out or Path()


def _write(run: Run, out: Path, *, critical_path: bool) -> None:
    from unified_profiler.export import write
    from unified_profiler.export.chrome import ChromeExporter
    from unified_profiler.export.writing import writing_to

    if not critical_path:
        write(run, out)
        return
    if not out.name.lower().endswith(_TIMELINES):
        msg = f"--critical-path needs a timeline: a file that ends with .json or .json.gz; found {out}."
        raise ConfigurationError(msg)
    exporter = ChromeExporter(
        compressed=out.name.lower().endswith(".gz"), overlays=overlays_of(run, critical_path=critical_path)
    )
    with writing_to(out):
        exporter.write(run.traces, out)
