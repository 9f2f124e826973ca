"""`unified-profiler view`: shows the timeline of a run in a local Perfetto UI, offline."""

from __future__ import annotations

import signal
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unified_profiler.cli.language import LanguageOption, language_of
from unified_profiler.cli.output import show_lines
from unified_profiler.cli.overlays import CriticalPathOption, overlays_of
from unified_profiler.cli.traces import DEFAULT_RUN, CycleOption, RankOption, RunPath, read_selected, working

if TYPE_CHECKING:
    from unified_profiler.export.overlays import Overlay
    from unified_profiler.model.run import Run

_END_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def view(
    run: RunPath = DEFAULT_RUN,
    *,
    rank: RankOption = None,
    cycle: CycleOption = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 for any free port.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address without opening a browser.")] = False,
    critical_path: CriticalPathOption = False,
    language: LanguageOption = None,
) -> None:
    r"""Show the timeline of a run in the Perfetto UI, in a browser on this machine, until Ctrl-C.

    The UI is served from this machine and needs no network; no part of the trace leaves the machine.

    Requires the extra `view`: pip install "unified-profiler[view]", or ".[view]" in a clone.

    Examples:
      unified-profiler view profile
      unified-profiler view profile --rank 3 --cycle 0
      unified-profiler view profile --critical-path
      unified-profiler view kineto.pt.trace.json --no-open --port 8123
    """
    from unified_profiler.viewer import find_ui

    spoken = language_of(language)
    with _end_on_signal(spoken):
        find_ui()  # raises if it is missing, before the run is read
        with working("reading", language=spoken):
            selected = read_selected(run, rank=rank, cycle=cycle, language=spoken)
        overlays = overlays_of(selected, critical_path=critical_path)
        title = (selected.path or Path(run)).name
        _show(selected, title=title, overlays=overlays, port=port, no_open=no_open, language=spoken)


def _show(run: Run, *, title: str, overlays: Sequence[Overlay], port: int, no_open: bool, language: str) -> None:
    from unified_profiler.presentation.texts import render_text, texts
    from unified_profiler.viewer import showing

    with ExitStack() as shown:
        with working("drawing", language=language):
            timeline = shown.enter_context(showing(run, title=title, port=port, overlays=overlays))
        show_lines([render_text("view.shown", {"event_count": timeline.event_count}, language=language)])
        typer.echo(timeline.address)
        if not no_open and not webbrowser.open(timeline.address):
            show_lines([texts(language)["view.no_browser"]])
        show_lines([texts(language)["view.press"]])
        _wait_for_signal()


def _wait_for_signal() -> None:
    threading.Event().wait()


@contextmanager
def _end_on_signal(language: str) -> Iterator[None]:
    """End the block on Ctrl-C or SIGTERM, only once, so that its cleanup is not interrupted."""
    from unified_profiler.presentation.texts import texts

    def end(*_: Any) -> None:
        for number in _END_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = [signal.signal(number, end) for number in _END_SIGNALS]
    try:
        yield
    except KeyboardInterrupt:
        show_lines(["", texts(language)["view.ended"]])
    finally:
        for number, handler in zip(_END_SIGNALS, before, strict=True):
            signal.signal(number, handler or signal.SIG_DFL)
