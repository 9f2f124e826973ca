"""Setting two large runs side by side, and what it finds of the same program run twice.

Absolute figures: no native profiler compares runs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import unified_profiler as up
from benchmarks.figures import Figure, seconds
from benchmarks.reporting import record


def measure() -> list[Figure]:
    """Record the same program twice and compare the runs in every way."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [_recorded(Path(folder) / name) for name in ("baseline", "candidate")]
        events = sum(len(trace.events) for trace in runs[0].traces)  # reads them
        note = f"two runs of {events} events"
        figures = []
        for by in ("name", "origin"):
            spent = seconds(lambda by=by: up.diff(*runs, by=by))  # type: ignore[misc]
            figures.append(
                Figure(
                    name=f"diff by {by}, beyond reading", value=spent, unit="s", at_most=3, against="itself", note=note
                )
            )
        found = up.diff(*runs)
        marked = sum(row.differs for row in found.rows)
        said = f"of {len(found.rows)}; all rows: {found.total.ratio:.3f}"
        figures.append(
            Figure(
                name="diff of a program with itself: rows marked",
                value=marked,
                unit="rows",
                at_most=0,
                against="itself",
                note=said,
            )
        )
        return figures


def _recorded(folder: Path) -> up.Run:
    record(folder)
    run = up.read(folder)
    for trace in run.traces:
        assert len(trace.events)  # noqa: S101  reading counts for itself
    return run
