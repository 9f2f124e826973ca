"""From the events of an XPlane file to the columns of the event schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from unified_profiler.model.columns import Index, encode, text
from unified_profiler.model.nesting import FIRST_LANE, Ints
from unified_profiler.model.overlaps import overlapping
from unified_profiler.model.schema import EventTable, Kind, event_table
from unified_profiler.model.tree import Flags, Tree
from unified_profiler.spi.lanes import assign_lanes, lane_number
from unified_profiler.spi.xplane.ends import InstructionEnds
from unified_profiler.spi.xplane.events import EventDescription, XPlaneEvents
from unified_profiler.spi.xplane.lanes import SIDE_LANE, LaneKind, XPlaneLane
from unified_profiler_tensorflow.read.xplane.columns import numbers
from unified_profiler_tensorflow.read.xplane.describer import Describer
from unified_profiler_tensorflow.read.xplane.meaning import Meaning, Role, operator, repeated
from unified_profiler_tensorflow.read.xplane.sessions import Node, SessionRun, covered_by_sessions

_ASYNCHRONOUS = "XLA asynchronous"
"""The name of the lanes of instructions that outlast their event."""


class Mapping:
    """Makes the columns of the schema from those of a file.

    Every event has the number of a meaning. Most meanings follow from the event alone; those of eager operators,
    asynchronous nodes and steps are settled here, by what encloses them.
    """

    def __init__(self, rows: XPlaneEvents, describer: Describer, sessions: Sequence[SessionRun] = ()) -> None:
        self._index = Index()
        meaning = self._index.codes(_describe_all(describer, rows.descriptions))[rows.description]
        kept = np.flatnonzero(self._flags(meaning, lambda m: m.role is not Role.END_MARK))
        self._lanes, self._lane, self._meaning = list(rows.lanes), rows.lane[kept], meaning[kept]
        self._start, self._end = rows.start_ns[kept], rows.end_ns[kept]
        self._pid = np.array([lane.pid for lane in rows.lanes], np.int64)[self._lane]
        self._tid = self._place()
        self._tree = Tree.of(self._start, self._end - self._start, self._pid, self._tid)
        self._settle_eager()
        self._settle_asynchronous()
        self._settle_steps()
        self._settle_sessions(sessions)
        self._settle_instructions(self._ends(rows, meaning), kept)

    def table(self, host: str | None) -> EventTable:
        """Build the event table."""
        lanes, meanings = self._lanes, self._meanings
        columns: dict[str, Any] = {
            "name": self._text(lambda m: m.name),
            "op": self._text(lambda m: m.canonical.op),
            "origin": self._text(lambda m: m.canonical.origin),
            "direction": self._text(lambda m: m.canonical.direction),
            "layer": self._text(lambda m: m.layer.value),
            "kind": self._text(lambda m: m.kind.value),
            "framework": "tensorflow",
            "start_ns": self._start,
            "duration_ns": self._end - self._start,
            "step": numbers(self._meaning, [m.step for m in meanings], pa.int32()),
            "host": host,
            "pid": self._pid,
            "tid": self._tid,
            "thread": text(self._lane, [lane.thread for lane in lanes]),
            "device": self._device(),
            "stream": numbers(self._lane, [lane.stream for lane in lanes], pa.int64()),
            "correlation_id": numbers(self._meaning, [m.correlation_id for m in meanings], pa.int64()),
            "input_shapes": self._text(lambda m: m.input_shapes),
            "input_types": self._text(lambda m: m.input_types),
            "bytes": numbers(self._meaning, [m.bytes for m in meanings], pa.int64()),
            "flops": numbers(self._meaning, [m.flops for m in meanings], pa.int64()),
            "value": numbers(self._meaning, [m.value for m in meanings], pa.float64()),
            "stack": self._stack(),
            "module": self._text(lambda m: m.module),
            "attributes": self._text(lambda m: m.attributes),
        }
        return event_table(columns, rows=len(self._start))

    @property
    def _meanings(self) -> list[Meaning]:
        return list(self._index)

    def _flags(self, meaning: Ints, wanted: Callable[[Meaning], bool]) -> Flags:
        flags: Flags = np.array([wanted(m) for m in self._index], np.bool_)[meaning]
        return flags

    def _of_role(self, *roles: Role) -> Flags:
        return self._flags(self._meaning, lambda m: m.role in roles)

    def _text(self, part: Callable[[Meaning], str | None]) -> pa.DictionaryArray | None:
        return text(self._meaning, map(part, self._index))

    def _device(self) -> pa.DictionaryArray | None:
        devices = Index()
        of_lane = devices.codes(lane.device for lane in self._lanes)[self._lane]
        of_meaning = np.array([-1 if m.device is None else devices[m.device] for m in self._index], np.int64)[
            self._meaning
        ]
        return text(np.where(of_meaning >= 0, of_meaning, of_lane), list(devices))

    def _place(self) -> Ints:
        """Return the lane of each event: that of its line, or the one beside."""
        tid: Ints = np.array([lane.tid for lane in self._lanes], np.int64)[self._lane]
        shared = self._of_role(Role.SHARED_WORK)
        tid[shared] += SIDE_LANE  # it would take the operator's own time away from it
        lane = np.where(shared, -1, self._lane)
        candidates = self._of_role(Role.FRAME, Role.EXECUTOR)
        tid[overlapping(self._start, self._end, lane, candidates)] += SIDE_LANE
        return tid

    def _settle_eager(self) -> None:
        """Make exactly one event of each eager call the operator: its kernel, or where there is none the call itself.

        The events around the kernel tell what the dispatch costs, which in a graph is not an operator's time either.
        """
        calls, width = self._of_role(Role.EAGER_CALL), len(self._index)
        rows = np.flatnonzero(self._of_role(Role.EAGER_KERNEL, Role.NODE))
        owner = self._tree.nearest(rows, calls)
        rows, owner = rows[owner >= 0], owner[owner >= 0]
        pair, distinct = encode(self._meaning[rows] * width + self._meaning[owner])
        meanings = self._meanings
        pairs = [(meanings[number // width], meanings[number % width]) for number in distinct.tolist()]
        kernels = np.array([_is_kernel_of(inner, call) for inner, call in pairs], np.bool_)[pair]
        nodes = np.array([inner.role is Role.NODE for inner, _ in pairs], np.bool_)[pair]
        kernels &= nodes | ~np.isin(owner, owner[kernels & nodes])
        settled = self._index.codes(_eager_operator(call, inner) for inner, call in pairs)[pair]
        self._meaning[rows[kernels]] = settled[kernels]
        calls[owner[kernels]] = False
        self._change(np.flatnonzero(calls), _eager_operator)

    def _settle_asynchronous(self) -> None:
        """Let the start of an asynchronous node be no operator where it lies within the operator's own event."""
        rows = np.flatnonzero(self._of_role(Role.ASYNC_START))
        rows = rows[self._tree.parent[rows] >= 0]
        node, _ = self._nodes()
        self._change(rows[node[rows] == node[self._tree.parent[rows]]], Meaning.as_runtime)

    def _settle_steps(self) -> None:
        """Let a step within a step be a region."""
        steps = self._flags(self._meaning, lambda m: m.kind is Kind.STEP)
        rows = np.flatnonzero(steps)
        self._change(rows[self._tree.nearest(rows, steps) >= 0], Meaning.as_region)

    def _settle_sessions(self, sessions: Sequence[SessionRun]) -> None:
        """Let nodes be no operators where RunMetadata has them."""
        rows = np.flatnonzero(self._of_role(Role.NODE, Role.ASYNC_START))
        node, nodes = self._nodes()
        self._change(rows[covered_by_sessions(sessions, self._start[rows], node[rows], nodes)], Meaning.as_runtime)

    def _ends(self, rows: XPlaneEvents, meaning: Ints) -> InstructionEnds:
        return InstructionEnds(
            *(rows.start_ns, rows.end_ns, rows.lane, rows.flow),
            instruction=self._flags(meaning, lambda m: m.role is Role.INSTRUCTION),
            mark=self._flags(meaning, lambda m: m.role is Role.END_MARK),
            executor=self._flags(meaning, lambda m: m.role is Role.PROGRAM),
        )

    def _settle_instructions(self, ends: InstructionEnds, kept: Ints) -> None:
        """Let instructions of XLA end when their work did; those that outlast their event have lanes of their own."""
        self._change(np.searchsorted(kept, ends.unmarked()), Meaning.as_unfinished)
        rows, end_ns = ends.late()
        rows = np.searchsorted(kept, rows)
        self._end[rows] = end_ns
        numbers = assign_lanes(self._start[rows].tolist(), end_ns.tolist(), [False] * len(rows))
        self._tid[rows] = [lane_number(_ASYNCHRONOUS, number) for number in numbers]
        self._lane[rows] = len(self._lanes)
        self._lanes += [XPlaneLane(int(pid), lane_number(_ASYNCHRONOUS), _ASYNCHRONOUS) for pid in self._pid[rows[:1]]]

    def _nodes(self) -> tuple[Ints, list[Node]]:
        """Return the node of each event, as a number, and the nodes."""
        index = Index()
        return index.codes((m.node or "", m.op_type or "") for m in self._index)[self._meaning], list(index)

    def _change(self, rows: Ints, change: Callable[[Meaning], Meaning]) -> None:
        meaning, distinct = encode(self._meaning[rows])
        meanings = self._meanings
        self._meaning[rows] = self._index.codes(change(meanings[number]) for number in distinct.tolist())[meaning]

    def _stack(self) -> pa.DictionaryArray | None:
        """Return the Python frames that enclose each event, where frames were recorded."""
        frames = self._of_role(Role.FRAME)
        if not frames.any():
            return None
        stack, stacks = self._tree.paths(frames, self._meaning, [m.name for m in self._index], separator=";")
        return text(np.where(frames, -1, stack), stacks)


def _describe_all(describer: Describer, descriptions: Sequence[EventDescription]) -> list[Meaning]:
    found = [(_describe(describer, description), _is_input_thread(description.lane)) for description in descriptions]
    trains = any(on_input_thread and meaning.is_training for meaning, on_input_thread in found)
    return [meaning.as_input(trains=trains) if on_input_thread else meaning for meaning, on_input_thread in found]


def _is_input_thread(lane: XPlaneLane) -> bool:
    """Return whether this is a native thread of `tf.data`; a Python thread may have any name."""
    return lane.tid >= FIRST_LANE and lane.kind is LaneKind.THREAD and lane.thread.startswith("tf_data")


def _describe(describer: Describer, description: EventDescription) -> Meaning:
    if description.lane.kind is LaneKind.STREAM:
        return describer.on_stream(description.name, description.stats)
    if description.lane.kind is LaneKind.DERIVED:
        return repeated(description.name, description.stats)
    return describer.on_host(description.name, description.stats)


def _is_kernel_of(inner: Meaning, call: Meaning) -> bool:
    """Say whether an event within an eager call of an operator, not of a function, is what the call runs."""
    if call.op_type is None:
        return False
    return inner.role is Role.EAGER_KERNEL or inner.node == inner.op_type == call.op_type


def _eager_operator(call: Meaning, kernel: Meaning | None = None) -> Meaning:
    """Return the operator of an eager call, the call itself where that is the call of a function."""
    if call.op_type is None:
        return call
    shapes, types = (kernel.input_shapes, kernel.input_types) if kernel else (None, None)
    return replace(operator(call.op_type), input_shapes=shapes, input_types=types)
