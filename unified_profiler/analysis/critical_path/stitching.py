"""Joins the pieces of all traces to one path per step, which may lead from rank to rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.columns import ints
from unified_profiler.analysis.critical_path.pieces import Fact
from unified_profiler.model.columns import Index, dictionary_array
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import TEXT

_Trace = tuple[int, ...]
_KEYS = ("trace", "rank", "cycle")
"""The columns that identify a trace; -1 stands for null."""
_TEXTS = ("lane", "device", "kind", "name", "op")
PATH = pa.schema(
    {
        **dict.fromkeys(("rank", "cycle", "step"), pa.int32()),
        **dict.fromkeys(("start_ns", "end_ns", "duration_ns"), pa.int64()),
        **dict.fromkeys(("lane", "device"), TEXT),
        "stream": pa.int64(),
        **dict.fromkeys(("kind", "name", "op"), TEXT),
        "event_id": pa.int64(),
    }
)
"""The columns of a critical path."""


@dataclass(frozen=True)
class _Step:
    """A step whose path is wanted, on the rank that ends last in it."""

    trace: _Trace
    rank: int | None
    cycle: int | None
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

    def __init__(self, facts: pa.Table, *, rank: int | None = None) -> None:
        """Prepare the rows of `path_facts` of all traces.

        Args:
            facts: The rows.
            rank: The rank on which paths end; None for the rank that ends last in each step.
        """
        facts = _sorted(facts)
        of_type = {fact: facts.filter(pc.equal(facts.column("fact"), int(fact))) for fact in Fact}
        self.segments = _with_texts(of_type[Fact.SEGMENT], of_type[Fact.TEXT])
        self.start, self.end = ints(self.segments, "start_ns"), ints(self.segments, "end_ns")
        self.bounds = _bounds(self.segments, (*_KEYS, "piece"))
        steps = of_type[Fact.STEP].to_pylist()
        self.steps = _last_ranks([row for row in steps if rank in {None, row["rank"]}])
        self.links = {
            (*_trace_of(row), row["piece"]): _Link(row["start_ns"], row["before"], row["number"])
            for row in of_type[Fact.PIECE].to_pylist()
        }
        self.entries = {row["number"]: (_trace_of(row), row["piece"]) for row in of_type[Fact.ENTRY].to_pylist()}

    def paths(self) -> pa.Table:
        """Return the segments of all paths, in the order of their steps and of time."""
        parts = [part for step in self.steps for part in self._path(step)]
        table = pa.concat_tables([PATH.empty_table(), *parts])
        return table.combine_chunks()

    def _path(self, step: _Step) -> list[pa.Table]:
        """Return the path of a step in parts; its segments cover the time of the step exactly."""
        parts = [self._cut(first, last, step, end) for first, last, end in self._parts(step)]
        parts = [part for part in parts if len(part)]
        reached = int(parts[-1].column("start_ns")[0].as_py()) if parts else step.end_ns
        if reached > step.start_ns:
            parts.append(_unknown(step, reached))
        return parts[::-1]

    def _parts(self, step: _Step) -> Iterator[tuple[int, int, int]]:
        """Yield first and last row of the segments of each piece of a path, and when its part in the path ends.

        Where the times of ranks contradict each other, pieces may lead back to one another; the path then ends.
        """
        trace, piece, end = step.trace, step.piece, step.end_ns
        visited: set[tuple[int, ...]] = set()
        while (*trace, piece, end) not in visited:
            visited.add((*trace, piece, end))
            key = (*trace, piece)
            first, last = self.bounds.get(key, (0, 0))
            yield first, last, end
            link = self.links[key]
            end = min(end, link.start_ns)
            if link.start_ns <= step.start_ns:
                return
            if link.before is not None:
                piece = link.before
            elif link.number is not None and link.number in self.entries:
                trace, piece = self.entries[link.number]
            else:
                return

    def _cut(self, first: int, last: int, step: _Step, end_ns: int) -> pa.Table:
        """Return segments of a step, cut to its start and to the end of their part in the path."""
        first += int(np.searchsorted(self.end[first:last], step.start_ns, side="right"))
        last = first + int(np.searchsorted(self.start[first:last], end_ns, side="left"))
        start, end = np.maximum(self.start[first:last], step.start_ns), np.minimum(self.end[first:last], end_ns)
        rows = self.segments.slice(first, last - first)
        number = pa.repeat(pa.scalar(step.step, pa.int32()), len(rows))
        times = {
            "step": number,
            "start_ns": pa.array(start),
            "end_ns": pa.array(end),
            "duration_ns": pa.array(end - start),
        }
        return pa.table([times[name] if name in times else rows.column(name) for name in PATH.names], schema=PATH)


def _sorted(facts: pa.Table) -> pa.Table:
    """Sort rows by type, trace, piece and start, unless an engine returned them in this order."""
    keys = [ints(facts, name) for name in ("start_ns", "piece", *_KEYS, "fact")]
    order = np.lexsort(keys)
    return facts if np.array_equal(order, np.arange(len(order))) else facts.take(pa.array(order))


def _with_texts(segments: pa.Table, texts: pa.Table) -> pa.Table:
    """Replace the numbers of texts, which each trace has of its own, by the texts."""
    index = Index()
    rows_of = _bounds(texts, _KEYS)
    traces = _bounds(segments, _KEYS)
    codes = {name: np.full(len(segments), -1) for name in _TEXTS}
    for trace, (first, last) in traces.items():
        own = texts.slice(rows_of[trace][0], rows_of[trace][1] - rows_of[trace][0])
        number = ints(own, "number")
        lookup = np.full(int(number.max()) + 2, -1)
        lookup[number] = index.codes(own.column("text").to_pylist())
        for name, code in codes.items():
            code[first:last] = lookup[ints(segments, name)[first:last]]
    values = pa.array(list(index), pa.string())
    for name, code in codes.items():
        position = segments.schema.get_field_index(name)
        segments = segments.set_column(position, name, dictionary_array(code, values))
    return segments


def _trace_of(row: dict[str, Any]) -> _Trace:
    return tuple(-1 if row[name] is None else row[name] for name in _KEYS)


def _bounds(rows: pa.Table, keys: Sequence[str]) -> dict[tuple[int, ...], tuple[int, int]]:
    """Return the first and the last row of each combination of keys, by which the rows are sorted."""
    values = [ints(rows, key) for key in keys]
    changes = np.zeros(len(rows), np.bool_)
    for value in values:
        changes[1:] |= value[1:] != value[:-1]
    changes[:1] = True
    first: Ints = np.flatnonzero(changes)
    last = np.append(first[1:], len(rows))[: len(first)]
    ranges = zip(first.tolist(), last.tolist(), strict=True)
    return dict(zip(zip(*(value[first].tolist() for value in values), strict=True), ranges, strict=True))


def _last_ranks(rows: Sequence[dict[str, Any]]) -> list[_Step]:
    """Return each step on the rank that ends last in it, in order."""
    latest: dict[tuple[int, int], dict[str, Any]] = {}
    for row in rows:
        key = (-1 if row["cycle"] is None else row["cycle"], -1 if row["step"] is None else row["step"])
        if key not in latest or row["end_ns"] > latest[key]["end_ns"]:
            latest[key] = row
    return [
        _Step(_trace_of(row), **{name: row[name] for name in ("rank", "cycle", "step", "piece", "start_ns", "end_ns")})
        for _, row in sorted(latest.items())
    ]


def _unknown(step: _Step, end_ns: int) -> pa.Table:
    """Return a segment for the time before the first event of a path."""
    row: dict[str, Any] = {
        "rank": step.rank,
        "cycle": step.cycle,
        "step": step.step,
        "start_ns": step.start_ns,
        "end_ns": end_ns,
    }
    row |= {"duration_ns": end_ns - step.start_ns, "kind": "gap", "name": "gap"}
    return pa.Table.from_pylist([row], schema=PATH)
