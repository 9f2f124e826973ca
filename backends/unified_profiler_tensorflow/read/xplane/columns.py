"""Builds the event table of an XPlane file, with corrections that depend on the surrounding events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from unified_profiler.model.columns import Index, encode, text_column
from unified_profiler.model.nesting import Ints
from unified_profiler.model.overlaps import overlapping
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable, Kind, event_table
from unified_profiler.model.tree import Flags, Tree
from unified_profiler.spi.lanes import assign_lanes, lane_number
from unified_profiler.spi.xplane.ends import InstructionEnds
from unified_profiler.spi.xplane.events import XPlaneEvents
from unified_profiler.spi.xplane.lanes import SIDE_LANE, XPlaneLane
from unified_profiler_tensorflow.read.run_metadata.nodes import Node
from unified_profiler_tensorflow.read.xplane.describer import Describer
from unified_profiler_tensorflow.read.xplane.sessions import SessionRun, covered_by_sessions
from unified_profiler_tensorflow.read.xplane.values import EventValues, Role, operator

_ASYNCHRONOUS = "XLA asynchronous"
"""The name of the lanes of instructions that outlast their event."""

_TEXT_COLUMNS = {
    **{name: attrgetter(name) for name in ("name", "input_shapes", "input_types", "module", "attributes")},
    **{name: attrgetter(f"canonical.{name}") for name in ("op", "origin", "direction")},
    **{name: attrgetter(f"{name}.value") for name in ("layer", "kind")},
}
_NUMBER_COLUMNS = ("step", "correlation_id", "bytes", "flops", "value")


class XPlaneColumns:
    """The schema columns of the events of a file.

    `_values` is the index of each event's `EventValues`. Most values follow from the event alone; those of eager
    operators, asynchronous nodes, steps, session runs and instructions are corrected here.
    """

    def __init__(self, events: XPlaneEvents, describer: Describer, sessions: Sequence[SessionRun]) -> None:
        self._distinct = Index()
        values = self._distinct.codes(describer.describe_all(events.descriptions))[events.description]
        kept = np.flatnonzero(~self._has_role(Role.END_MARK, of=values))
        self._lanes, self._lane, self._values = list(events.lanes), events.lane[kept], values[kept]
        self._start, self._end = events.start_ns[kept], events.end_ns[kept]
        self._pid = np.array([lane.pid for lane in events.lanes], np.int64)[self._lane]
        self._tid = self._assign_tids()
        self._tree = Tree.of(self._start, self._end - self._start, self._pid, self._tid)
        self._resolve_eager_calls()
        self._resolve_asynchronous_nodes()
        self._resolve_fetches()
        self._resolve_nested_steps()
        self._resolve_sessions(sessions)
        self._resolve_instruction_ends(self._instruction_ends(events, values), kept)

    def table(self, host: str | None) -> EventTable:
        """Build the event table."""
        columns: dict[str, Any] = {
            **{name: text_column(self._values, map(value, self._distinct)) for name, value in _TEXT_COLUMNS.items()},
            **{name: _numbers(name, self._values, map(attrgetter(name), self._distinct)) for name in _NUMBER_COLUMNS},
            "framework": "tensorflow",
            "start_ns": self._start,
            "duration_ns": self._end - self._start,
            "host": host,
            "pid": self._pid,
            "tid": self._tid,
            "thread": text_column(self._lane, [lane.thread for lane in self._lanes]),
            "device": self._device(),
            "stream": _numbers("stream", self._lane, [lane.stream for lane in self._lanes]),
            "stack": self._stack(),
        }
        return event_table(columns, rows=len(self._start))

    def _has_role(self, *roles: Role, of: Ints | None = None) -> Flags:
        flags: Flags = np.array([values.role in roles for values in self._distinct], np.bool_)
        return flags[self._values if of is None else of]

    def _device(self) -> pa.DictionaryArray | None:
        devices = Index()
        of_lane = devices.codes(lane.device for lane in self._lanes)[self._lane]
        own = [-1 if values.device is None else devices[values.device] for values in self._distinct]
        of_event = np.array(own, np.int64)[self._values]
        return text_column(np.where(of_event >= 0, of_event, of_lane), list(devices))

    def _assign_tids(self) -> Ints:
        """Return the lane of each event: that of its line, or its side lane if the event would not nest.

        Python frames in which an annotation begins or ends, and the sections of an executor's work in a loop, partly
        overlap other events by the way they are recorded.
        """
        tid: Ints = np.array([lane.tid for lane in self._lanes], np.int64)[self._lane]
        shared = self._has_role(Role.SHARED_WORK)
        tid[shared] += SIDE_LANE  # inside the operator it would reduce the operator's self time
        lane = np.where(shared, -1, self._lane)
        candidates = self._has_role(Role.FRAME, Role.EXECUTOR)
        tid[overlapping(self._start, self._end, lane, candidates)] += SIDE_LANE
        return tid

    def _resolve_eager_calls(self) -> None:
        """Make exactly one event of each eager call the operator: its kernel, or the call itself if it has none.

        The events around the kernel are the cost of dispatch, which in a graph is not an operator's time either.
        """
        is_call, width = self._has_role(Role.EAGER_CALL), len(self._distinct)
        rows = np.flatnonzero(self._has_role(Role.EAGER_KERNEL, Role.NODE))
        call = self._tree.nearest(rows, is_call)
        rows, call = rows[call >= 0], call[call >= 0]
        pair, distinct_pairs = encode(self._values[rows] * width + self._values[call])
        values = list(self._distinct)
        pairs = [(values[number // width], values[number % width]) for number in distinct_pairs.tolist()]
        is_kernel = np.array([_is_kernel_of(inner, outer) for inner, outer in pairs], np.bool_)[pair]
        is_node = np.array([inner.role is Role.NODE for inner, _ in pairs], np.bool_)[pair]
        is_kernel &= is_node | ~np.isin(call, call[is_kernel & is_node])
        operators = self._distinct.codes(_eager_operator(outer, inner) for inner, outer in pairs)[pair]
        self._values[rows[is_kernel]] = operators[is_kernel]
        is_call[call[is_kernel]] = False
        self._replace(np.flatnonzero(is_call), _eager_operator)

    def _resolve_asynchronous_nodes(self) -> None:
        """Turn the start of an asynchronous node within the event of the same node into a runtime event."""
        rows = np.flatnonzero(self._has_role(Role.ASYNC_START))
        rows = rows[self._tree.parent[rows] >= 0]
        node, _ = self._nodes()
        self._replace(rows[node[rows] == node[self._tree.parent[rows]]], EventValues.as_runtime)

    def _resolve_fetches(self) -> None:
        """Make the wait for the next element of a dataset the operator, instead of the event that only starts it.

        Where the event of the node lasts until the element is there, as in an eager call, it remains the operator.
        """
        is_operator = np.array([values.kind is Kind.OP for values in self._distinct], np.bool_)[self._values]
        rows = np.flatnonzero(self._has_role(Role.FETCH))
        enclosing = self._tree.nearest(rows, is_operator)
        rows = rows[enclosing < 0]
        values = list(self._distinct)
        waits = {values[number].op_type for number in np.unique(self._values[rows]).tolist()}
        is_start = self._has_role(Role.NODE, Role.ASYNC_START) & is_operator
        is_start &= np.array([each.op_type in waits for each in values], np.bool_)[self._values]
        is_start[enclosing[enclosing >= 0]] = False
        starts = [values[number] for number in np.unique(self._values[is_start]).tolist()]
        nodes = {op_type: {each.node for each in starts if each.op_type == op_type} for op_type in waits}
        self._replace(rows, lambda fetch: _fetch_operator(fetch, nodes[fetch.op_type]))
        self._replace(np.flatnonzero(is_start), EventValues.as_start)

    def _resolve_nested_steps(self) -> None:
        """Turn a step within a step into a region."""
        is_step = np.array([values.kind is Kind.STEP for values in self._distinct], np.bool_)[self._values]
        rows = np.flatnonzero(is_step)
        self._replace(rows[self._tree.nearest(rows, is_step) >= 0], EventValues.as_region)

    def _resolve_sessions(self, sessions: Sequence[SessionRun]) -> None:
        """Turn nodes that RunMetadata contains, too, into runtime events."""
        rows = np.flatnonzero(self._has_role(Role.NODE, Role.ASYNC_START))
        node, nodes = self._nodes()
        covered = covered_by_sessions(sessions, self._start[rows], node[rows], nodes)
        self._replace(rows[covered], EventValues.as_runtime)

    def _instruction_ends(self, events: XPlaneEvents, values: Ints) -> InstructionEnds:
        return InstructionEnds(
            *(events.start_ns, events.end_ns, events.lane, events.flow),
            instruction=self._has_role(Role.INSTRUCTION, of=values),
            mark=self._has_role(Role.END_MARK, of=values),
            executor=self._has_role(Role.PROGRAM, of=values),
        )

    def _resolve_instruction_ends(self, ends: InstructionEnds, kept: Ints) -> None:
        """Extend XLA instructions to the end of their work, in separate lanes if they outlast their event."""
        self._replace(np.searchsorted(kept, ends.unmarked()), EventValues.as_unfinished)
        rows, end_ns = ends.late()
        rows = np.searchsorted(kept, rows)
        self._end[rows] = end_ns
        lanes = assign_lanes(self._start[rows], end_ns)
        self._tid[rows] = [lane_number(_ASYNCHRONOUS, lane) for lane in lanes.tolist()]
        self._lane[rows] = len(self._lanes)
        self._lanes += [XPlaneLane(int(pid), lane_number(_ASYNCHRONOUS), _ASYNCHRONOUS) for pid in self._pid[rows[:1]]]

    def _nodes(self) -> tuple[Ints, list[Node]]:
        """Return the index of each event's node, and the nodes."""
        nodes = Index()
        codes = nodes.codes((values.node or "", values.op_type or "") for values in self._distinct)
        return codes[self._values], list(nodes)

    def _replace(self, rows: Ints, change: Callable[[EventValues], EventValues]) -> None:
        codes, changed = encode(self._values[rows])
        values = list(self._distinct)
        self._values[rows] = self._distinct.codes(change(values[number]) for number in changed.tolist())[codes]

    def _stack(self) -> pa.DictionaryArray | None:
        """Return the Python frames that enclose each event, if frames were recorded."""
        frames = self._has_role(Role.FRAME)
        if not frames.any():
            return None
        names = [values.name for values in self._distinct]
        stack, stacks = self._tree.paths(frames, self._values, names, separator=";")
        return text_column(np.where(frames, -1, stack), stacks)


def _numbers(column: str, codes: Ints, values: Iterable[float | None]) -> pa.Array:
    return pa.array(list(values), EVENT_SCHEMA.field(column).type).take(pa.array(codes))


def _is_kernel_of(inner: EventValues, call: EventValues) -> bool:
    """Return whether an event is the kernel of an eager call of an operator; calls of functions have none."""
    if call.op_type is None:
        return False
    return inner.role is Role.EAGER_KERNEL or inner.node == inner.op_type == call.op_type


def _fetch_operator(fetch: EventValues, nodes: Collection[str | None]) -> EventValues:
    """Return the operator of a wait for data, with the path of its node if only one of its type ran."""
    node = next(iter(nodes)) if len(nodes) == 1 else None
    stats = msgspec.json.decode(fetch.attributes or "{}")
    return operator(str(fetch.op_type), node, role=Role.NODE, stats=stats)


def _eager_operator(call: EventValues, kernel: EventValues | None = None) -> EventValues:
    """Return the operator of an eager call, or the call itself if it is that of a function."""
    if call.op_type is None:
        return call
    shapes, types = (kernel.input_shapes, kernel.input_types) if kernel else (None, None)
    return replace(operator(call.op_type), input_shapes=shapes, input_types=types)
