"""`unified-profiler view`: the timeline of a run in the Perfetto UI, on this machine and offline."""

from __future__ import annotations

import signal
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from unified_profiler.cli.traces import CycleOption, RankOption, RunPath, read_selected, working

_ENDING = (signal.SIGINT, signal.SIGTERM)


def view(
    run: RunPath,
    *,
    rank: RankOption = None,
    cycle: CycleOption = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port of 127.0.0.1; 0 for any that is free.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address, open no browser.")] = False,
) -> None:
    r"""Show the timeline of a run in the Perfetto UI, in a browser on this machine, until Ctrl-C.

    The UI is served from here and works without a network; no part of the trace leaves this machine.

    It needs the extra `view`: pip install "unified-profiler\[view]"

    [bold]Examples[/bold]

      unified-profiler view profile

      unified-profiler view profile --rank 3 --cycle 0

      unified-profiler view kineto.pt.trace.json --no-open --port 8123
    """
    with _ended_by_a_signal():
        _show(run, rank=rank, cycle=cycle, port=port, no_open=no_open)


def _show(run: RunPath, *, rank: int | None, cycle: int | None, port: int, no_open: bool) -> None:
    from unified_profiler.viewer import find_ui, showing

    find_ui()  # before the work of reading: it may be missing
    with working("Reading"):
        selected = read_selected(run, rank=rank, cycle=cycle)
    title = (selected.path or Path(run)).name
    with ExitStack() as shown:
        with working("Writing the timeline"):
            timeline = shown.enter_context(showing(selected, title=title, port=port))
        typer.echo(f"{timeline.event_count} events are shown at\n{timeline.address}")
        if not no_open and not webbrowser.open(timeline.address):
            typer.echo("No browser could be opened here. Open the address in one on this machine.")
        typer.echo("Ctrl-C ends it.")
        _wait_for_a_signal()


def _wait_for_a_signal() -> None:
    threading.Event().wait()


@contextmanager
def _ended_by_a_signal() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block, in good order and only once, so that what it made is cleared away."""

    def end(*_: Any) -> None:
        for each in _ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = [signal.signal(each, end) for each in _ENDING]
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("\nThe viewer has ended; nothing is left behind.")
    finally:
        for each, handler in zip(_ENDING, before, strict=True):
            signal.signal(each, handler or signal.SIG_DFL)
