"""Converts the nodes that ran on one device, or on one of its streams, from NodeExecStats to events."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.arrow_arrays import number_array, text_array
from unified_profiler.model.columns import text_column
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, event_table
from unified_profiler.spi.groups import distinct_rows
from unified_profiler.spi.lanes import assign_lanes, lane_number
from unified_profiler_tensorflow.read.run_metadata.builder import MEMORY, json_text
from unified_profiler_tensorflow.read.run_metadata.names import Device
from unified_profiler_tensorflow.read.run_metadata.node_stats import Allocations, Coded, NodeStats
from unified_profiler_tensorflow.read.run_metadata.work import WorkReader, Works

Node = tuple[str, str]
"""Path and type."""

_HOST_ALLOCATOR = re.compile("cpu|host", re.IGNORECASE)

_WORK_COLUMNS = frozenset({"layer", "kind", "name", "op", "origin", "direction", "module"})
_CALLS = frozenset(
    {
        *("PartitionedCall", "StatefulPartitionedCall", "RemoteCall", "SymbolicGradient", "BatchFunction"),
        *("While", "StatelessWhile", "_While", "If", "StatelessIf", "_If", "Case", "StatelessCase", "For"),
    }
)
"""Types of nodes that run other nodes and end after them."""


class NodeEvents(NamedTuple):
    """Events, and the operator of each as an index into `nodes`, -1 for other events.

    A node occurs several times in `nodes` if it has several labels.
    """

    table: EventTable
    node: Ints
    nodes: list[Node]


class _CodedWork(NamedTuple):
    """The work of each node, as an index into `works`."""

    codes: Ints
    works: Works


class _Lanes(NamedTuple):
    """The lane of each event."""

    tid: Ints
    thread: Coded[str]


@dataclass(frozen=True)
class DeviceNodes:
    """Builds the events of the nodes of a device.

    RunMetadata contains thread 0 for all nodes, although they overlap, so they are assigned to lanes.
    """

    device: Device
    device_name: str
    """TensorFlow's name of the device."""
    graph: str | None
    """The name of the graph that ran."""
    reader: WorkReader

    def events(self, stats: NodeStats) -> NodeEvents:
        """Return an event for each node, followed by one for each of its allocations."""
        work = _CodedWork(stats.labels.codes, self.reader.read(stats.labels.values, self.device, self.graph))
        lanes = self._lanes(stats, work)
        nodes = self._node_table(stats, work, lanes)
        if self.device.part is not None:
            return NodeEvents(nodes, np.full(len(nodes), -1, np.int64), [])
        allocations = stats.allocations()
        memory = self._allocation_table(stats, allocations, work, lanes)
        order = np.argsort(np.concatenate([np.arange(len(nodes)), allocations.node]), kind="stable")
        node = np.concatenate([work.codes, np.full(len(memory), -1, np.int64)])
        operators = list(zip(work.works.node, work.works.name, strict=True))
        return NodeEvents(joined([nodes, memory]).take(order), node[order], operators)

    def _lanes(self, stats: NodeStats, work: _CodedWork) -> _Lanes:
        is_call = np.array([self.device.part is None and op_type in _CALLS for op_type in work.works.op_type], np.bool_)
        lane = assign_lanes(stats.start_ns, stats.start_ns + stats.duration_ns, is_call[work.codes])
        numbers = range(int(lane.max(initial=-1)) + 1)
        tids = np.array([lane_number(self.device_name, number) for number in numbers], np.int64)
        return _Lanes(tids[lane], Coded(lane, [f"{self.device_name} lane {number}" for number in numbers]))

    def _node_table(self, stats: NodeStats, work: _CodedWork, lanes: _Lanes) -> EventTable:
        head = Coded(work.codes, list(work.works.attributes))
        columns: dict[str, Any] = {}
        parts = [head]
        if self.device.part is None:
            outputs, memory = stats.outputs(), stats.memory()
            columns |= {"output_shapes": _texts(outputs, attrgetter("shapes"))}
            columns |= {"output_types": _texts(outputs, attrgetter("types"))}
            columns |= {"bytes": _numbers(memory, [used.bytes for used in memory.values])}
            more: list[Coded[Any]] = [outputs, memory]
            of_outputs, of_memory = (Coded(each.codes, [value.attributes for value in each.values]) for each in more)
            parts += [of_memory, stats.statistics(), of_outputs, stats.references()]
        return self._table(
            work,
            start_ns=stats.start_ns,
            duration_ns=stats.duration_ns,
            device=self.device.name,
            stream=self.device.stream,
            tid=lanes.tid,
            thread=_texts(lanes.thread),
            attributes=_attributes(parts[0], stats.times(), _combined(parts[1:])),
            **columns,
        )

    def _table(self, work: _CodedWork, **columns: Any) -> EventTable:
        columns |= {name: text_column(work.codes, getattr(work.works, name)) for name in _WORK_COLUMNS}
        return event_table(columns | {"framework": "tensorflow"}, rows=len(work.codes))

    def _allocation_table(
        self, stats: NodeStats, allocations: Allocations, work: _CodedWork, lanes: _Lanes
    ) -> EventTable:
        """Build the events of the allocations and frees of nodes while they ran, inside them, and of later frees.

        The later ones are in a lane of their own. By its rounded time the first may appear to lie before the node.
        """
        node, allocator = allocations.node, allocations.allocator
        start = stats.start_ns[node]
        is_inside = allocations.timestamp_ns - start < stats.duration_ns[node]
        frees = [f"{self.device_name} {name} frees" for name in allocator.values]
        frees_tid = np.array([lane_number(name) for name in frees], np.int64)
        threads = [*lanes.thread.values, *frees]
        thread = np.where(is_inside, lanes.thread.codes[node], allocator.codes + len(lanes.thread.values))
        codes, rows = distinct_rows(allocator.codes, work.codes[node])
        attributes = [{"allocator": allocator.values[a], "node": work.works.node[b]} for a, b in rows]
        texts = [json_text({key: value for key, value in each.items() if value}) for each in attributes]
        on_host = ["cpu:0" if _HOST_ALLOCATOR.search(name) else self.device.name for name in allocator.values]
        columns = {
            "name": "[memory]",
            "layer": MEMORY.layer,
            "kind": MEMORY.kind,
            "framework": "tensorflow",
            "start_ns": np.maximum(start, allocations.timestamp_ns),
            "duration_ns": 0,
            "device": text_column(allocator.codes, on_host),
            "bytes": allocations.bytes,
            "tid": np.where(is_inside, lanes.tid[node], frees_tid[allocator.codes]),
            "thread": text_column(thread, threads),
            "attributes": text_column(codes, [text if text != "{}" else None for text in texts]),
        }
        return event_table(columns, rows=len(node))


def _combined(columns: Sequence[Coded[str]]) -> Coded[str]:
    """Concatenate texts row by row."""
    if not columns:
        return Coded(np.empty(0, np.int64), [])
    codes, rows = distinct_rows(*(column.codes for column in columns))
    values = [column.values for column in columns]
    return Coded(codes, ["".join(v[code] for v, code in zip(values, row, strict=True)) for row in rows])


def _attributes(head: Coded[str], times: Sequence[pa.StringArray], tail: Coded[str]) -> pa.StringArray:
    """Return the JSON object of each row, null if it is empty."""
    opening, closing, nothing = text_array(["{", "}", ""])
    first, last = (text_array(part.values).take(number_array(part.codes)) for part in (head, tail))
    objects = pc.binary_join_element_wise(opening, first, *times, *([last] if len(last) else []), closing, nothing)
    # a member ends in a comma, which is one too many before the closing bracket
    trimmed = pc.binary_replace_slice(objects.cast(pa.binary()), -2, -1, b"").cast(pa.string())
    (null,) = pa.nulls(1, pa.string())
    return pc.if_else(pc.equal(trimmed, closing), null, trimmed)


def _texts(column: Coded[Any], text: Callable[[Any], str | None] = lambda text: text) -> pa.DictionaryArray | None:
    return text_column(column.codes, map(text, column.values))


def _numbers(column: Coded[Any], values: Sequence[int | None]) -> pa.Array:
    return pa.array(values, pa.int64()).take(pa.array(column.codes))


def joined(tables: Sequence[EventTable]) -> EventTable:
    """Concatenate event tables."""
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()
