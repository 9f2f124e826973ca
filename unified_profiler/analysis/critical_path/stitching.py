"""Joins the pieces of all traces to one path per step, which may lead from rank to rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.columns import ints
from unified_profiler.analysis.critical_path.pieces import PATH_FACTS
from unified_profiler.model.nesting import Ints

PATH = pa.schema(
    [
        *(PATH_FACTS.field(name) for name in ("rank", "cycle", "step", "start_ns", "end_ns")),
        pa.field("duration_ns", pa.int64()),
        *(PATH_FACTS.field(name) for name in ("lane", "device", "stream", "kind", "name", "op", "event_id")),
    ]
)
"""The columns of a critical path."""

_Trace = tuple[int, int]


@dataclass(frozen=True)
class _Step:
    """A step whose path is wanted, on the rank that ends last in it."""

    trace: _Trace
    step: int | None
    piece: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class _Link:
    """What is before a piece."""

    start_ns: int
    before: int | None
    number: int | None


class Stitcher:
    """Follows pieces backward through the traces of a run."""

    def __init__(self, facts: pa.Table) -> None:
        self.segments = _of_type(facts, "segment")
        self.start, self.end = ints(self.segments, "start_ns"), ints(self.segments, "end_ns")
        self.bounds = _bounds(self.segments)
        self.steps = _last_ranks(_of_type(facts, "step").to_pylist())
        self.links = {
            (_trace_of(row), row["piece"]): _Link(row["start_ns"], row["before"], row["number"])
            for row in _of_type(facts, "piece").to_pylist()
        }
        self.entries = {row["number"]: (_trace_of(row), row["piece"]) for row in _of_type(facts, "entry").to_pylist()}

    def paths(self) -> pa.Table:
        """Return the segments of all paths, in the order of their steps and of time."""
        tables = [self._path(step) for step in self.steps]
        return pa.concat_tables([PATH.empty_table(), *tables]).combine_chunks()

    def _path(self, step: _Step) -> pa.Table:
        """Return the path of a step; its segments cover the time of the step exactly."""
        parts, reached = [], step.end_ns
        for first, last, end in self._parts(step):
            parts.append(self._cut(first, last, max(step.start_ns, 0), end))
            reached = min(reached, end)
        parts = [part for part in parts if len(part)]
        if parts:
            reached = min(int(parts[-1].column("start_ns")[0].as_py()), step.end_ns)
        if reached > step.start_ns:
            parts.append(_unknown(step, reached))
        table = pa.concat_tables(parts[::-1])
        duration = pc.subtract(table.column("end_ns"), table.column("start_ns"))
        number = pa.repeat(pa.scalar(step.step, pa.int32()), len(table))
        columns = {name: table.column(name) for name in table.column_names} | {"duration_ns": duration, "step": number}
        return pa.table({name: columns[name] for name in PATH.names}).cast(PATH)

    def _parts(self, step: _Step) -> Iterator[tuple[int, int, int]]:
        """Yield first and last row of the segments of each piece of a path, and when its part in the path ends."""
        trace, piece, end = step.trace, step.piece, step.end_ns
        while True:
            first, last = self.bounds.get((trace, piece), (0, 0))
            yield first, last, end
            link = self.links[trace, piece]
            end = min(end, link.start_ns)
            if link.start_ns <= step.start_ns:
                return
            if link.before is not None:
                piece = link.before
            elif link.number is not None and link.number in self.entries:
                trace, piece = self.entries[link.number]
            else:
                return

    def _cut(self, first: int, last: int, start_ns: int, end_ns: int) -> pa.Table:
        """Return segments cut to a time interval."""
        first += int(np.searchsorted(self.end[first:last], start_ns, side="right"))
        last = first + int(np.searchsorted(self.start[first:last], end_ns, side="left"))
        rows = self.segments.slice(first, last - first)
        for name, values in (
            ("start_ns", np.maximum(self.start[first:last], start_ns)),
            ("end_ns", np.minimum(self.end[first:last], end_ns)),
        ):
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
        return rows


def _of_type(facts: pa.Table, fact: str) -> pa.Table:
    return facts.filter(pc.equal(facts.column("fact"), fact))


def _trace_of(row: dict[str, Any]) -> _Trace:
    return row["rank"], row["cycle"]


def _bounds(segments: pa.Table) -> dict[tuple[_Trace, int], tuple[int, int]]:
    """Return the first and the last row of each piece's segments, which are sorted by trace and piece."""
    keys = [ints(segments, name) for name in ("rank", "cycle", "piece")]
    changes = np.zeros(len(segments), np.bool_)
    for key in keys:
        changes[1:] |= key[1:] != key[:-1]
    changes[:1] = True
    first: Ints = np.flatnonzero(changes)
    last = np.append(first[1:], len(segments))
    names = zip(*(key[first].tolist() for key in keys), strict=True)
    ranges = zip(first.tolist(), last.tolist(), strict=True)
    return {((rank, cycle), piece): bounds for (rank, cycle, piece), bounds in zip(names, ranges, strict=True)}


def _last_ranks(rows: Sequence[dict[str, Any]]) -> list[_Step]:
    """Return each step on the rank that ends last in it, in order."""
    latest: dict[tuple[int, int], dict[str, Any]] = {}
    for row in rows:
        key = (row["cycle"], -1 if row["step"] is None else row["step"])
        if key not in latest or row["end_ns"] > latest[key]["end_ns"]:
            latest[key] = row
    return [
        _Step(_trace_of(row), row["step"], row["piece"], row["start_ns"], row["end_ns"])
        for _, row in sorted(latest.items())
    ]


def _unknown(step: _Step, end_ns: int) -> pa.Table:
    """Return a segment for the time before the first event of a path."""
    rank, cycle = step.trace
    row = {"fact": "segment", "rank": rank, "cycle": cycle, "start_ns": step.start_ns, "end_ns": end_ns}
    return pa.Table.from_pylist([{**row, "kind": "gap", "name": "gap"}], schema=PATH_FACTS)
