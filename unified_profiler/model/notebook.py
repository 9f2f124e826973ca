"""HTML summaries of traces and runs for notebooks, made without reading events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unified_profiler.model.records import Failure, TraceInfo
from unified_profiler.presentation.html import html_paragraphs, html_table
from unified_profiler.presentation.units import format_time

MOST_TRACES = 50
MOST_FAILURES = 10
_HEADINGS = ("Rank", "Cycle", "Steps", "Frameworks", "Events", "Time", "State")
_TEXT_COLUMNS = ("Frameworks", "State")


def traces_html(title: str, infos: Sequence[TraceInfo], failures: Sequence[tuple[int, Failure]] = ()) -> str:
    """Return a table with a row for each trace, and the failures below it.

    Args:
        title: The caption of the table.
        infos: The traces.
        failures: The failures, each with its rank.
    """
    rows = [_row(info) for info in infos[:MOST_TRACES]]
    table = html_table(_HEADINGS, rows, left=[heading in _TEXT_COLUMNS for heading in _HEADINGS], caption=title)
    lines = [
        f"Failure of rank {rank}: {failure.source} failed to {failure.action}: {failure.error}"
        for rank, failure in failures[:MOST_FAILURES]
    ]
    lines = [*_more(infos, MOST_TRACES, "traces"), *lines, *_more(failures, MOST_FAILURES, "failures")]
    return table + html_paragraphs(lines)


def _more(items: Sequence[Any], most: int, noun: str) -> list[str]:
    return [f"... and {len(items) - most} more {noun}"] if len(items) > most else []


def _row(info: TraceInfo) -> list[str]:
    last = "" if info.last_step == info.first_step else f"-{info.last_step}"
    duration = info.end_ns - info.start_ns
    return [
        str(info.rank),
        str(info.cycle),
        "--" if info.first_step is None else f"{info.first_step}{last}",
        ", ".join(f"{name} {version}".strip() for name, version in sorted(info.frameworks.items())) or "--",
        str(info.event_count),
        format_time(duration) if duration > 0 else "--",
        "complete" if info.complete else "incomplete",
    ]
