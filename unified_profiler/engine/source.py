"""Provides the tables of a Trace or a Run to queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from unified_profiler.model.clocks import RankClock
from unified_profiler.model.run import Run
from unified_profiler.model.schema import empty_table
from unified_profiler.model.trace import Trace

Source: TypeAlias = Trace | Run
"""Input of analyses and queries."""


@dataclass(frozen=True)
class TraceFiles:
    """Files of traces whose times need the same correction."""

    paths: Sequence[Path | str]
    start_ns: str
    """SQL expression for the corrected column `start_ns`."""


def files_of(traces: Sequence[Trace]) -> list[TraceFiles]:
    """Return the files of traces, grouped by clock correction."""
    paths: dict[str, list[Path | str]] = {}
    for trace in traces:
        if trace.file is not None:
            paths.setdefault(_start_ns(trace.clock), []).append(trace.file)
    return [TraceFiles(files, start_ns) for start_ns, files in paths.items()]


def _start_ns(clock: RankClock | None) -> str:
    if clock is None:
        return "start_ns"
    ahead = f"cast('{clock.ahead_ns!r}' as double) + cast('{clock.drift!r}' as double) * (start_ns - {clock.at_ns})"
    return f"start_ns - cast(round({ahead}) as bigint)"


@dataclass(frozen=True)
class Events:
    """All events of some traces, which an engine reads from memory or from their files."""

    traces: Sequence[Trace]

    def __len__(self) -> int:
        """Return the number of events."""
        return sum(map(len, self.traces))

    def files(self) -> list[TraceFiles]:
        """Return the files of the traces that are not in memory."""
        return files_of([trace for trace in self.traces if trace.unread_file is not None])

    def in_memory(self) -> pa.Table:
        """Return the events of the traces in memory as one table."""
        tables = [trace.events for trace in self.traces if trace.unread_file is None]
        return pa.concat_tables(tables) if tables else empty_table()


def traces_of(source: Source) -> Sequence[Trace]:
    """Return the traces of a run, or the one trace.

    Raises:
        UsageError: The source is neither a Trace nor a Run.
    """
    return Run.of(source).traces


def tables_of(source: Source) -> dict[str, Any]:
    """Return the table `events` of all events, not yet read, and `steps` if the run has them."""
    tables: dict[str, Any] = {"events": Events(traces_of(source))}
    if isinstance(source, Run) and source.steps is not None:
        tables["steps"] = source.steps
    return tables
