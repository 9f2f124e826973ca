"""Generates runs of many ranks with known stragglers and known clocks, for tests and benchmarks.

All ranks load data, compute and synchronize in one all-reduce per step, which ends for all when the last one arrives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler._version import __version__
from unified_profiler.delivery.run_writer import RunWriter
from unified_profiler.model.columns import dictionary_array
from unified_profiler.model.nesting import Ints
from unified_profiler.model.records import Manifest, TraceInfo
from unified_profiler.model.schema import EventTable, event_table
from unified_profiler.model.steps import STEP_SCHEMA
from unified_profiler.model.trace import Trace

_LAYERS = 20
"""Number of outer operator names; each has a part of the computing time."""
_INNER = 4
"""Number of operators within each outer one; each takes a sixth of its time."""
_DATA_NS, _COMPUTE_NS, _TRANSFER_NS, _UPDATE_NS = 400_000, 8_000_000, 600_000, 500_000
_EPOCH_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """A rank that is slow from a given step on."""

    rank: int
    since: int
    extra_ns: int
    operator: str | None = None
    """The outer operator that takes longer; None for loading data."""


@dataclass(frozen=True, kw_only=True)
class HostClock:
    """Offset and drift of a clock relative to the true time."""

    offset_ns: int = 0
    drift: float = 0.0
    """Gain per unit of true time."""

    def reading(self, true_ns: Ints) -> Ints:
        """Return the readings of the clock at true times."""
        ahead: Ints = np.round(self.offset_ns + self.drift * (true_ns - _EPOCH_NS)).astype(np.int64)
        return true_ns + ahead


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The parameters of a job of many ranks. The same fleet generates the same run."""

    ranks: int
    steps: int = 60
    outer_ops: int = 40
    """Number per step; a step has five times as many events, plus four."""
    stragglers: Sequence[Straggler] = ()
    clocks: Mapping[int, HostClock] = field(default_factory=dict)
    seed: int = 0
    noise: float = 0.02
    """Standard deviation of a step's computing time, relative to it."""

    @property
    def epoch_ns(self) -> int:
        """The true time at which the first step begins."""
        return _EPOCH_NS

    def write(self, output_dir: Path, name: str = "fleet") -> Path:
        """Write the run directory and return it."""
        times = _Times.of(self)
        for rank in range(self.ranks):
            writer = RunWriter(output_dir, name, rank)
            trace = self._trace(rank, times)
            writer.write_trace(trace)
            writer.write_manifest(self._manifest(trace))
            writer.steps.append(_steps_table(trace, rank))
        return output_dir / name

    def _trace(self, rank: int, times: _Times) -> Trace:
        events = _events(self, rank, times)
        start = events.column("start_ns").to_numpy()
        end = start + events.column("duration_ns").to_numpy()
        info = TraceInfo(
            run="fleet", rank=rank, world_size=self.ranks, host=f"host-{rank:04d}", pid=rank + 1,
            frameworks={"fake": "1"}, start_ns=int(start.min()), end_ns=int(end.max()),
            first_step=0, last_step=self.steps - 1, event_count=len(events),
        )  # fmt: skip
        return Trace(events, info)

    def _manifest(self, trace: Trace) -> Manifest:
        info = trace.info
        return Manifest(
            profiler_version=__version__, run=info.run, rank=info.rank, world_size=self.ranks, host=info.host,
            pid=info.pid, python="", platform="", started_ns=info.start_ns, ended_ns=info.end_ns,
            step_count=self.steps,
        )  # fmt: skip


@dataclass(frozen=True)
class _Times:
    """True times by step and rank: borders of data loading, computing, all-reduce and update."""

    start: Ints
    loaded: Ints
    computed: Ints
    reduced: Ints
    updated: Ints
    slower: dict[tuple[int, str], Ints]
    """Extra time by rank and outer operator, per step."""

    @classmethod
    def of(cls, fleet: Fleet) -> _Times:
        random = np.random.default_rng(fleet.seed)
        shape = (fleet.steps, fleet.ranks)
        data = np.full(shape, _DATA_NS)
        compute = (_COMPUTE_NS * random.normal(1, fleet.noise, shape)).astype(np.int64)
        slower = {}
        for each in fleet.stragglers:
            extra = np.where(np.arange(fleet.steps) >= each.since, each.extra_ns, 0)
            part = data if each.operator is None else compute
            part[:, each.rank] += extra
            if each.operator is not None:
                slower[each.rank, each.operator] = extra
        late = np.abs(random.normal(0, 15_000, shape)).astype(np.int64)  # ranks see the end at slightly different times
        times = np.zeros((5, *shape), np.int64)
        begin = np.full(fleet.ranks, _EPOCH_NS)
        for step in range(fleet.steps):
            loaded = begin + data[step]
            computed = loaded + compute[step]
            reduced = computed.max() + _TRANSFER_NS + late[step]
            times[:, step] = begin, loaded, computed, reduced, reduced + _UPDATE_NS
            begin = times[4, step]
        start, loaded, computed, reduced, updated = times
        return cls(start, loaded, computed, reduced, updated, slower)


def _events(fleet: Fleet, rank: int, times: _Times) -> EventTable:
    """Return the events of a rank, step by step; within one: step, data, operators, all-reduce, update."""
    clock = fleet.clocks.get(rank, HostClock())
    borders = (times.start, times.loaded, times.computed, times.reduced, times.updated)
    begin, loaded, computed, reduced, updated = (clock.reading(border[:, rank]) for border in borders)
    outer_start, outer_length, inner_length = _outer(fleet, rank, times, loaded, computed)
    inner_length = np.repeat(inner_length, outer_length.shape[1] * _INNER, axis=1)
    inner_start = np.repeat(outer_start, _INNER, axis=1) + inner_length * np.tile(np.arange(_INNER), fleet.outer_ops)
    spans = [
        (begin[:, None], (updated - begin)[:, None]),
        (begin[:, None], (loaded - begin)[:, None]),
        (outer_start, outer_length),
        (inner_start, inner_length),
        (computed[:, None], (reduced - computed)[:, None]),
        (reduced[:, None], (updated - reduced)[:, None]),
    ]
    start, length = (np.concatenate(parts, axis=1) for parts in zip(*spans, strict=True))
    return _as_table(fleet, rank, start, length)


def _outer(fleet: Fleet, rank: int, times: _Times, loaded: Ints, computed: Ints) -> tuple[Ints, Ints, Ints]:
    """Return start and length of the outer operators, longer for stragglers, and the length of inner ones."""
    layer = np.arange(fleet.outer_ops) % _LAYERS
    extra = np.zeros((fleet.steps, fleet.outer_ops), np.int64)
    for (slow_rank, operator), added in times.slower.items():
        if slow_rank == rank:
            is_slow = layer == int(operator.rpartition("_")[2])
            extra[:, is_slow] += added[:, None] // max(int(is_slow.sum()), 1)
    plain = (computed - loaded - extra.sum(axis=1)) // fleet.outer_ops
    length = plain[:, None] + extra
    start = loaded[:, None] + np.cumsum(length, axis=1) - length
    return start, length, (plain // 6)[:, None]


def _as_table(fleet: Fleet, rank: int, start: Ints, length: Ints) -> EventTable:
    """Assemble the columns; every step has its events in the same order."""
    outer, inner = fleet.outer_ops, fleet.outer_ops * _INNER
    names = ["step", "load_data", *(f"layer_{i}" for i in range(_LAYERS)), "mul", "gloo:all_reduce", "update"]
    middle = np.arange(outer) % _LAYERS + 2
    code = np.concatenate([[0, 1], middle, np.full(inner, _LAYERS + 2), [_LAYERS + 3, _LAYERS + 4]])
    kinds = ["step", "region", "op", "collective"]
    kind = np.concatenate([[0, 1], np.full(outer + inner, 2), [3, 2]])
    depth = np.concatenate([[0, 1], np.full(outer, 1), np.full(inner, 2), [0, 1]])
    parent_offset = np.concatenate([[-1, 0], np.zeros(outer, int), np.repeat(np.arange(outer) + 2, _INNER), [-1, 0]])
    width = len(code)
    base = (np.arange(fleet.steps) * width)[:, None]
    self_ns = length.copy()
    self_ns[:, 2 : 2 + outer] -= length[:, 2 + outer : 2 + outer + inner].reshape(-1, outer, _INNER).sum(axis=2)
    self_ns[:, 0] -= length[:, 1] + length[:, 2 : 2 + outer].sum(axis=1) + length[:, -1]
    parent = np.where(parent_offset >= 0, parent_offset + base, -1).ravel()

    def each(values: Any) -> Any:
        return np.tile(values, fleet.steps)

    def text(codes: Ints, values: list[str]) -> pa.Array:
        return dictionary_array(each(codes), pa.array(values))

    return event_table(
        {
            "id": np.arange(start.size),
            "parent_id": pa.array(parent, mask=parent < 0),
            "name": text(code, names),
            "layer": text(np.where(kind < 2, 0, 1), ["application", "framework"]),
            "kind": text(kind, kinds),
            "framework": text(np.where(kind < 2, -1, 0), ["fake"]),
            "op": text(np.where(kind == 3, 0, -1), ["x:AllReduce"]),
            "start_ns": start.ravel(),
            "duration_ns": length.ravel(),
            "self_ns": self_ns.ravel(),
            "depth": each(depth),
            "step": np.repeat(np.arange(fleet.steps), width),
            "cycle": 0,
            "rank": rank,
            "host": f"host-{rank:04d}",
            "pid": rank + 1,
            "tid": each(np.where(code == _LAYERS + 3, 2, 1)),
            "device": "cpu:0",
        },
        rows=start.size,
    )


def _steps_table(trace: Trace, rank: int) -> pa.Table:
    events = trace.events
    rows = events.filter(pc.equal(events.column("kind"), "step"))
    start = rows.column("start_ns").to_numpy()
    columns = {
        "rank": [rank] * len(rows),
        "step": rows.column("step"),
        "start_ns": start,
        "end_ns": start + rows.column("duration_ns").to_numpy(),
        "phase": ["record"] * len(rows),
    }
    return pa.table(columns, schema=STEP_SCHEMA)
