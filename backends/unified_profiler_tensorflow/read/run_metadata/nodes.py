"""Converts the nodes that ran on one device, or on one of its streams, from NodeExecStats to events."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from unified_profiler.spi.lanes import assign_lanes, lane_number
from unified_profiler_tensorflow.read.run_metadata.builder import (
    COPY,
    MEMORY,
    OPERATOR,
    EventTableBuilder,
    EventType,
    device_event_type,
    json_text,
)
from unified_profiler_tensorflow.read.run_metadata.names import Device, Label, dtype_name, read_kernel_label, read_label

_KERNEL_DETAILS = re.compile(r"^(?P<name>.+?) (?P<launch>(?:regs|grid|shm):.*)$")
_COPY_TYPE = re.compile(r"<(?P<type>\w+)>")
_HOST_ALLOCATOR = re.compile("cpu|host", re.IGNORECASE)

_CALLS = frozenset(
    {
        *("PartitionedCall", "StatefulPartitionedCall", "RemoteCall", "SymbolicGradient", "BatchFunction"),
        *("While", "StatelessWhile", "_While", "If", "StatelessIf", "_If", "Case", "StatelessCase", "For"),
    }
)
"""Types of nodes that run other nodes and end after them."""

LaneColumns = Mapping[str, Any]
"""The columns `tid` and `thread` of an event."""


@dataclass(frozen=True)
class DeviceNodes:
    """Adds the nodes of a device to the events of a run.

    RunMetadata contains thread 0 for all nodes, although they overlap, so they are assigned to lanes.
    """

    builder: EventTableBuilder
    device: Device
    device_name: str
    """TensorFlow's name of the device."""
    graph: str | None
    """The name of the graph that ran."""

    def add(self, nodes: Sequence[Any]) -> None:
        """Add all nodes."""
        on_host = self.device.part is None
        labels = [(read_label if on_host else read_kernel_label)(n.node_name, n.timeline_label) for n in nodes]
        start = [_start_ns(node) for node in nodes]
        end = [begin + _duration_ns(node) for begin, node in zip(start, nodes, strict=True)]
        lanes = assign_lanes(start, end, [on_host and label.op_type in _CALLS for label in labels])
        for node, label, number in zip(nodes, labels, lanes, strict=True):
            lane = {"tid": lane_number(self.device_name, number), "thread": f"{self.device_name} lane {number}"}
            if on_host:
                self._add_operator(node, label, lane)
                self._add_allocations(node, label, lane)
            else:
                self._add_device_work(node, label, lane)

    def _add_operator(self, node: Any, label: Label, lane: LaneColumns) -> None:
        outputs = [output.tensor_description for output in node.output]
        shapes, types = _shapes_and_types(tuple((_shape(output.shape), output.dtype) for output in outputs))
        attributes = {
            "node": label.node,
            "graph": self.graph,
            "inputs": label.inputs,
            "label": label.details,
            **_times(node),
            "memory": {used.allocator_name: _sizes(used) for used in node.memory},
            **_sizes(node.memory_stats),
            **_output_memory(node.output),
            "referenced_bytes": [tensor.requested_bytes for tensor in node.referenced_tensor],
        }
        self.builder.add_node(
            OPERATOR,
            label.node,
            label.op_type,
            name=label.op_type,
            start_ns=_start_ns(node),
            duration_ns=_duration_ns(node),
            device=self.device.name,
            output_shapes=shapes,
            output_types=types,
            bytes=sum(used.total_bytes for used in node.memory) if node.memory else None,
            attributes=attributes,
            **lane,
        )

    def _add_allocations(self, node: Any, label: Label, lane: LaneColumns) -> None:
        """Add the allocations and frees of a node while it ran, inside it, and later frees, in another lane.

        Their times are whole microseconds, so the first one may appear to lie before the node.
        """
        start, end = _start_ns(node), _start_ns(node) + _duration_ns(node)
        for used in node.memory:
            on_host = _HOST_ALLOCATOR.search(used.allocator_name)
            frees = f"{self.device_name} {used.allocator_name} frees"
            frees_lane = {"tid": lane_number(frees), "thread": frees}
            for record in used.allocation_records:
                timestamp = record.alloc_micros * 1000
                self.builder.add(
                    MEMORY,
                    name="[memory]",
                    start_ns=max(start, timestamp),
                    duration_ns=0,
                    device="cpu:0" if on_host else self.device.name,
                    bytes=record.alloc_bytes,
                    attributes={"allocator": used.allocator_name, "node": label.node},
                    **(lane if timestamp < end else frees_lane),
                )

    def _add_device_work(self, node: Any, label: Label, lane: LaneColumns) -> None:
        event_type, name, details = _device_work(self.device, node.node_name, label)
        attributes = {"node": label.node, "op_type": label.op_type, "graph": self.graph, "details": details}
        self.builder.add_node(
            event_type,
            label.node,
            label.op_type,
            name=name,
            start_ns=_start_ns(node),
            duration_ns=_duration_ns(node),
            device=self.device.name,
            stream=self.device.stream,
            attributes=attributes | _times(node),
            **lane,
        )


def _device_work(device: Device, node_name: str, label: Label) -> tuple[EventType, str, str | None]:
    """Return type and name of work on an accelerator, and the other details of its label."""
    part, details = device.part or "", label.details or ""
    event_type = device_event_type(part, details)
    if event_type is COPY:
        kind = _COPY_TYPE.search(part)
        return event_type, kind["type"] if kind else (details or node_name).split()[0], details
    kernel = _KERNEL_DETAILS.match(details)
    return (event_type, kernel["name"], kernel["launch"]) if kernel else (event_type, node_name or details, details)


def _nanoseconds(node: Any, field: str) -> int:
    """Return a time of a node; older versions store microseconds only."""
    return int(getattr(node, f"{field}_nanos") if node.all_start_nanos else getattr(node, f"{field}_micros") * 1000)


def _start_ns(node: Any) -> int:
    return _nanoseconds(node, "all_start")


def _duration_ns(node: Any) -> int:
    return _nanoseconds(node, "all_end_rel")


def _times(node: Any) -> dict[str, int]:
    """Return the thread and the other times of a node, those of the operator only if they differ from the node's."""
    op_start, op_end = _nanoseconds(node, "op_start_rel"), _nanoseconds(node, "op_end_rel")
    times = {"scheduled_ns": node.scheduled_nanos or node.scheduled_micros * 1000, "thread_id": node.thread_id}
    if (op_start, op_end) != (0, _duration_ns(node)):
        times |= {"op_start_rel_ns": op_start, "op_end_rel_ns": op_end}
    return times


def _sizes(message: Any) -> dict[str, int]:
    """Return the sizes in a message of statistics; protobuf omits those that are zero."""
    return {field.name: value for field, value in message.ListFields() if isinstance(value, int)}


def _output_memory(outputs: Sequence[Any]) -> dict[str, Any]:
    """Return the memory of each output, which the node itself need not have allocated."""
    memory = [output.tensor_description.allocation_description for output in outputs]
    slots = [output.slot for output in outputs]
    return {
        "output_bytes": [tensor.requested_bytes for tensor in memory],
        "output_allocated_bytes": [tensor.allocated_bytes for tensor in memory],
        "output_allocators": sorted({tensor.allocator_name for tensor in memory if tensor.allocator_name}),
        "output_slots": slots if slots != list(range(len(slots))) else None,
    }


def _shape(shape: Any) -> tuple[int, ...] | None:
    return None if shape.unknown_rank else tuple(dim.size for dim in shape.dim)


@lru_cache(maxsize=1 << 16)
def _shapes_and_types(outputs: tuple[tuple[tuple[int, ...] | None, int], ...]) -> tuple[str | None, str | None]:
    """Return shapes and types of outputs as compact JSON."""
    if not outputs:
        return None, None
    return json_text([shape for shape, _ in outputs]), json_text([dtype_name(dtype) for _, dtype in outputs])
