"""Exports a run and serves it in the Perfetto UI."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from unified_profiler.errors import ExportError
from unified_profiler.export import ChromeExporter, Overlay, writing_to
from unified_profiler.model.run import Run
from unified_profiler.model.schema import Kind
from unified_profiler.viewer.perfetto import find_ui, ui_address
from unified_profiler.viewer.server import TimelineServer


@dataclass(frozen=True)
class Timeline:
    """A timeline that is being served."""

    address: str
    """The URL for a browser on this machine."""
    event_count: int


@contextmanager
def showing(run: Run, *, title: str = "trace", port: int = 0, overlays: Sequence[Overlay] = ()) -> Iterator[Timeline]:
    """Export a run and serve it with the UI while the context is open. No files are left behind.

    Args:
        run: The run to show, all of its traces on one time axis.
        title: The title in the UI.
        port: The port of 127.0.0.1; 0 for any free port.
        overlays: Spans to show above the events, such as a critical path.

    Raises:
        UsageError: The UI is not installed.
        ExportError: The run holds no events.
        ConfigurationError: The port is not available.
    """
    ui = find_ui()
    _check_not_empty(run)
    with (
        tempfile.TemporaryDirectory(prefix="unified-profiler-view-") as folder,
        TimelineServer(ui, port=port) as server,
    ):
        file = Path(folder, f"{_file_name(title)}.json.gz")
        with writing_to(file):
            ChromeExporter(compressed=True, overlays=overlays).write(run.traces, file)
        address = ui_address(server.address, server.add_trace(file), first_step(run))
        yield Timeline(address, sum(len(trace.events) for trace in run.traces))


def first_step(run: Run) -> tuple[int, int] | None:
    """Return start and end of the first recorded step in the time of the exported file, which starts at 0."""
    steps, starts = [], []
    for trace in run.traces:
        events = trace.events.select(["kind", "start_ns", "duration_ns"])
        rows = events.filter(pc.equal(events.column("kind"), Kind.STEP.value))
        steps += list(zip(rows.column("start_ns").to_pylist(), rows.column("duration_ns").to_pylist(), strict=True))
        starts += [pc.min(events.column("start_ns")).as_py()] if len(events) else []
    if not steps:
        return None
    start, duration = min(steps)
    return start - min(starts), start - min(starts) + duration


def _check_not_empty(run: Run) -> None:
    if any(trace.info.event_count for trace in run.traces):
        return
    content = "traces without any event" if run.traces else "no trace"
    msg = f"{run!r} holds {content}, so there is no timeline to show. Record at least one cycle first."
    raise ExportError(msg)


def _file_name(title: str) -> str:
    """Replace characters that have a special meaning in a URL."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", title)[:80] or "trace"
