"""A job of many ranks, each with a device and a million events, and how long its device table takes.

Every rank has the same events at other times, made by calculation, so that all figures of the table are known. Host and
device run in parallel: an operator launches a kernel of random length, which runs a little later; an all-reduce
overlaps with the last kernels of a step, and a copy precedes the first.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.figures import Figure
from unified_profiler import __version__
from unified_profiler.delivery.run_writer import RunWriter
from unified_profiler.model.columns import dictionary_array, with_nulls
from unified_profiler.model.nesting import Ints
from unified_profiler.model.records import Manifest, TraceInfo
from unified_profiler.model.schema import EventTable, event_table
from unified_profiler.model.trace import Trace

RANKS = 64
_EPOCH_NS = 1_700_000_000_000_000_000
_PERIOD, _LAG = 5_000, 20_000
"""Time between operators, and how far the device is behind the host."""
_SHORTEST, _LONGEST, _JITTER = 1_000, 4_500, 400
"""Limits of the length of a kernel, and of the delay of an operator."""
_HIDDEN_KERNELS, _EXPOSED = 200, 500_000
"""Number of kernels that run during the all-reduce, and how much longer it takes than these."""
_COPY_LEAD, _COPY = 10_000, 8_000
_ANSWER = """
import json, sys, time
import unified_profiler as up
start = time.perf_counter()
run = up.read(sys.argv[1])
table = up.device_table(run)
spent = time.perf_counter() - start
from benchmarks.normalizing import peak_memory
peak = peak_memory()
events = sum(len(trace) for trace in run.traces)
print(json.dumps({"seconds": spent, "peak": peak, "events": events, "rows": table.table.to_pylist()}))
"""


@dataclass(frozen=True, kw_only=True)
class DeviceFleet:
    """The parameters of the job; a step of a rank has three events per operator, and seven more."""

    ranks: int = RANKS
    steps: int = 200
    operators: int = 1_665

    def write(self, output_dir: Path, name: str = "fleet") -> Path:
        """Write the run directory and return it."""
        events = self._events()
        for rank in range(self.ranks):
            writer = RunWriter(output_dir, name, rank)
            trace = self._trace(events, rank)
            writer.write_trace(trace)
            writer.write_manifest(self._manifest(trace))
        return output_dir / name

    def expected(self, step: int) -> dict[str, int]:
        """Return the figures of a step, which are those of every rank, by the columns of the device table."""
        lengths = self._kernel_lengths()[step]
        kernels, hidden = int(lengths.sum()), int(lengths[-_HIDDEN_KERNELS:].sum())
        all_reduce = _HIDDEN_KERNELS * _PERIOD + _EXPOSED
        return {
            "work_count": self.operators + 2,
            "busy_ns": kernels + all_reduce - hidden + _COPY,
            "compute_ns": kernels,
            "communication_ns": all_reduce,
            "overlap_ns": hidden,
            "exposed_communication_ns": all_reduce - hidden,
            "copy_ns": _COPY,
            "exposed_copy_ns": _COPY,
        }

    def _kernel_lengths(self) -> Ints:
        return np.random.default_rng(0).integers(_SHORTEST, _LONGEST, (self.steps, self.operators))

    @property
    def _step_ns(self) -> int:
        return self.operators * _PERIOD + 1_000_000

    def _events(self) -> EventTable:
        """Return the events of rank 0."""
        kinds = _EventKinds.of(self.operators)
        start = _EPOCH_NS + np.arange(self.steps)[:, None] * self._step_ns + kinds.start
        length = np.tile(np.where(kinds.kind == 0, self._step_ns, kinds.length), (self.steps, 1))
        length[:, -self.operators :] = self._kernel_lengths()
        delay = np.random.default_rng(1).integers(0, _JITTER, (self.steps, self.operators))
        start[:, -3 * self.operators : -self.operators] += np.tile(delay, 2)  # operators and their launches
        first = np.arange(self.steps)[:, None] * (self.operators + 2)
        rows = self.steps * len(kinds.start)
        correlation = np.where(kinds.launch >= 0, kinds.launch + first, -1).ravel()
        row = np.arange(self.steps)[:, None] * len(kinds.start)
        parent = np.where(kinds.parent >= 0, kinds.parent + row, -1).ravel()

        def each(values: Ints) -> Ints:
            return np.tile(values, self.steps)

        def text(codes: Ints, *values: str) -> pa.Array:
            return dictionary_array(each(codes), pa.array(values))

        on_device = kinds.stream >= 0
        return event_table(
            {
                "id": np.arange(rows),
                "parent_id": with_nulls(parent, parent < 0),
                "name": text(kinds.name, *_NAMES),
                "kind": text(kinds.kind, *_KINDS),
                "layer": text(np.select([kinds.kind == 0, kinds.kind == 1], [0, 1], 2), *_LAYERS),
                "framework": "torch",
                "start_ns": start.ravel(),
                "duration_ns": length.ravel(),
                "self_ns": (length - kinds.time_of_children(length[0])).ravel(),
                "depth": each(np.where(on_device | (kinds.kind == 0), 0, np.where(kinds.kind == 1, 1, 2))),
                "step": np.repeat(np.arange(self.steps), len(kinds.start)),
                "cycle": 0,
                "rank": 0,
                "pid": each(np.where(on_device, 0, 1)),
                "tid": each(np.where(on_device, kinds.stream, 1)),
                "device": text(on_device.astype(np.int64), "cpu:0", "cuda:0"),
                "stream": with_nulls(each(kinds.stream), each(kinds.stream) < 0),
                "correlation_id": with_nulls(correlation, correlation < 0),
                "bytes": with_nulls(each(kinds.bytes), each(kinds.bytes) < 0),
            },
            rows=rows,
        )

    def _trace(self, events: EventTable, rank: int) -> Trace:
        start = events.column("start_ns").to_numpy() + rank * 1_000
        columns = {"start_ns": pa.array(start), "rank": pa.repeat(pa.scalar(rank, pa.int32()), len(events))}
        for name, column in columns.items():
            index = events.schema.get_field_index(name)
            events = events.set_column(index, events.schema.field(index), column)
        info = TraceInfo(
            run="fleet", rank=rank, world_size=self.ranks, host="", pid=rank + 1, frameworks={"torch": "1"},
            start_ns=int(start.min()), end_ns=int(start.max()) + self._step_ns, first_step=0,
            last_step=self.steps - 1, event_count=len(events),
        )  # fmt: skip
        return Trace(events, info)

    def _manifest(self, trace: Trace) -> Manifest:
        info = trace.info
        return Manifest(
            profiler_version=__version__, run=info.run, rank=info.rank, world_size=self.ranks, host="", pid=info.pid,
            python="", platform="", started_ns=info.start_ns, ended_ns=info.end_ns, step_count=self.steps,
        )  # fmt: skip


_NAMES = ("ProfilerStep", "aten::mm", "cudaLaunchKernel", "gemm", "c10d::allreduce_", "ncclDevKernel_AllReduce",
          "aten::copy_", "cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)")  # fmt: skip
_KINDS = ("step", "op", "runtime", "kernel", "collective", "copy")
_LAYERS = ("application", "framework", "runtime")


@dataclass(frozen=True)
class _EventKinds:
    """The columns of the events of one step, relative to its start."""

    name: Ints
    kind: Ints
    start: Ints
    length: Ints
    stream: Ints
    """-1 on the host."""
    launch: Ints
    """Number of the launch, -1 for what is none and has none."""
    bytes: Ints
    parent: Ints
    """Position of the enclosing event, -1 if there is none."""

    @classmethod
    def of(cls, operators: int) -> _EventKinds:
        index = np.arange(operators)
        reduced = (operators - _HIDDEN_KERNELS) * _PERIOD
        # the copy and the all-reduce stand first, each with its operator and its launch
        extra = [
            (0, 0, 0, 0, -1, -1, -1, -1),
            (6, 1, 0, 900, -1, -1, -1, 0), (7, 2, 100, 700, -1, operators, -1, 1),
            (8, 5, _LAG - _COPY_LEAD, _COPY, 9, operators, 1 << 20, -1),
            (4, 1, reduced + 4_500, 900, -1, -1, -1, 0), (2, 2, reduced + 4_550, 700, -1, operators + 1, -1, 4),
            (5, 4, reduced + _LAG, _HIDDEN_KERNELS * _PERIOD + _EXPOSED, 20, operators + 1, -1, -1),
        ]  # fmt: skip
        at, none = 1_000 + index * _PERIOD, np.full(operators, -1)
        operator = _rows(1, 1, at, 3_000, -1, none, none + 1)
        launch = _rows(2, 2, at + 500, 2_000, -1, index, len(extra) + index)
        kernel = _rows(3, 3, index * _PERIOD + _LAG, 0, 7, index, none)
        return cls(*np.concatenate([np.array(extra).T, operator, launch, kernel], axis=1))

    def time_of_children(self, length: Ints) -> Ints:
        """Return how much of each event its children take."""
        has_parent = self.parent >= 0
        times = np.zeros(len(length), np.int64)
        np.add.at(times, self.parent[has_parent], length[has_parent])
        return times


def _rows(name: int, kind: int, start: Ints, length: int, stream: int, launch: Ints, parent: Ints) -> Ints:
    columns: list[Ints | int] = [name, kind, start, length, stream, launch, -1, parent]
    return np.stack([np.broadcast_to(column, start.shape) for column in columns])


def measure() -> list[Figure]:
    """Write the job and measure its device table in a process of its own, reading included."""
    fleet = DeviceFleet()
    with tempfile.TemporaryDirectory() as folder:
        path = fleet.write(Path(folder))
        done = subprocess.run([sys.executable, "-c", _ANSWER, path], check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    note = f"{fleet.ranks} ranks, {answer['events']:,} events"
    return [
        Figure(name="device_table, reading included", value=answer["seconds"], unit="s", at_most=20, note=note),
        Figure(name="device_table, memory", value=answer["peak"] / 1e9, unit="GB", at_most=2, note=note),
        Figure(name="device_table, wrong rows", value=wrong_rows(fleet, answer["rows"]), unit="rows", at_most=0),
    ]


def wrong_rows(fleet: DeviceFleet, rows: list[dict[str, Any]]) -> int:
    """Count the rows that differ from the true figures, and those that are missing."""
    expected = [fleet.expected(step) for step in range(fleet.steps)]
    right = sum(all(row[name] == value for name, value in expected[row["step"]].items()) for row in rows)
    return max(len(rows), fleet.ranks * fleet.steps) - right
