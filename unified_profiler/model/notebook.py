"""What traces and runs say about themselves in notebooks. Nothing here reads an event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from unified_profiler.model.records import Failure, TraceInfo
from unified_profiler.presentation.html import html_paragraphs, html_table
from unified_profiler.presentation.units import format_time

MOST_TRACES = 50
MOST_FAILURES = 10
_HEADINGS = ("Rank", "Cycle", "Steps", "Frameworks", "Events", "Time", "State")
_OF_TEXT = ("Frameworks", "State")


def traces_html(title: str, infos: Sequence[TraceInfo], failures: Iterable[tuple[int, Failure]] = ()) -> str:
    """Return a table with a row for each trace, and what went wrong below it.

    Args:
        title: What it is a table of.
        infos: What the traces are.
        failures: What went wrong, each with its rank.
    """
    rows = [_row(info) for info in infos[:MOST_TRACES]]
    table = html_table(_HEADINGS, rows, left=[heading in _OF_TEXT for heading in _HEADINGS], caption=title)
    more = len(infos) - MOST_TRACES
    below = [f"... and {more} more traces"] if more > 0 else []
    failures = list(failures)
    below += [_said(rank, failure) for rank, failure in islice(failures, MOST_FAILURES)]
    unsaid = len(failures) - MOST_FAILURES
    return table + html_paragraphs([*below, *([f"... and {unsaid} more failures"] if unsaid > 0 else [])])


def _row(info: TraceInfo) -> list[str]:
    last = "" if info.last_step == info.first_step else f"-{info.last_step}"
    lasted = info.end_ns - info.start_ns
    return [
        str(info.rank),
        str(info.cycle),
        "--" if info.first_step is None else f"{info.first_step}{last}",
        ", ".join(f"{name} {version}".strip() for name, version in sorted(info.frameworks.items())) or "--",
        str(info.event_count),
        format_time(lasted) if lasted > 0 else "--",
        "complete" if info.complete else "incomplete",
    ]


def _said(rank: int, failure: Failure) -> str:
    return f"Failure of rank {rank}: {failure.source} failed to {failure.action}: {failure.error}"
