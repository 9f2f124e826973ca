"""Arguments and functions that commands share: the path of a run, reading it, showing progress."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unified_profiler.engine import Engine
    from unified_profiler.model.run import Run

RunPath = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run directory, a run in `profile` by its name, a directory of runs (the newest is used), one of their "
        "files, or a native trace. Directories may be URLs.",
    ),
]
DEFAULT_RUN = "profile"
"""Where `run` and a Profiler write by default."""
RankOption = Annotated[int | None, typer.Option("--rank", min=0, help="Only this rank.")]
CycleOption = Annotated[int | None, typer.Option("--cycle", min=0, help="Only this cycle.")]


@contextmanager
def working(key: str, *, language: str, **values: str) -> Iterator[None]:
    """Show what is being done and the elapsed time on stderr during the block.

    Args:
        key: What is being done, such as `reading`.
        language: The language of the text.
        **values: The values in the text.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from unified_profiler.cli.terminal import encodable
    from unified_profiler.presentation.texts import render_text

    console = Console(stderr=True)
    text = encodable(render_text(f"working.{key}", values, language=language), console.encoding)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task(text, total=None)
        yield


def read_selected(
    path: Path | str,
    *,
    rank: int | None = None,
    cycle: int | None = None,
    one_clock: bool = False,
    engine: Engine | None = None,
    language: str,
) -> Run:
    """Read a run and select one rank, one cycle, or both.

    Args:
        path: Path of the run.
        rank: Only this rank.
        cycle: Only this cycle.
        one_clock: Whether to align the clocks of several machines first, unless that is done already.
        engine: The engine that reads URLs.
        language: The language of the line that names the run.

    Raises:
        ConfigurationError: The run has no such rank or cycle.
    """
    run = read_named(path, engine=engine, language=language)
    if one_clock:
        from unified_profiler.analysis import align_clocks
        from unified_profiler.delivery.run_writer import save_clocks

        known = run.clocks
        run = align_clocks(run)
        if known is None:
            save_clocks(run, run.clocks)
    return run.select(rank=rank, cycle=cycle)


def read_named(path: Path | str, *, engine: Engine | None = None, language: str) -> Run:
    """Read a run, and print which one of a directory was taken.

    Args:
        path: Path of the run, or its name in `profile`, as `unified-profiler runs` prints it.
        engine: The engine that reads URLs.
        language: The language of the line that names the run.
    """
    from unified_profiler.model.run import is_run
    from unified_profiler.readers import read

    in_default = Path(DEFAULT_RUN) / path
    if not Path(path).exists() and len(Path(path).parts) == 1 and is_run(in_default):
        path = in_default
    run = read(path, engine=engine)
    _name_newest(path, run, language=language)
    return run


def _name_newest(path: Path | str, run: Run, *, language: str) -> None:
    if run.path is None or run.path.parent != Path(path):
        return
    from unified_profiler.presentation.texts import render_whole
    from unified_profiler.readers.dispatch import runs_in

    count = len(runs_in(run.path.parent))
    key = "only" if count == 1 else "newest" if run.traces else "newest_without_trace"
    line = render_whole(f"reading.{key}", {"run": run.path, "run_count": count}, language=language)
    print(f"unified-profiler: {line}", file=sys.stderr)  # noqa: T201  above the progress, which typer.echo does not move
