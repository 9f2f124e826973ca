"""The nodes that ran on one device, or on one of its streams: from NodeExecStats to events."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from unified_profiler.spi.lanes import assign_lanes, lane_number
from unified_profiler_tensorflow.read.run_metadata.names import Device, Label, dtype_name, read_kernel_label, read_label
from unified_profiler_tensorflow.read.run_metadata.rows import (
    COPY,
    MEMORY,
    OPERATOR,
    Meaning,
    Rows,
    json_text,
    meaning_of_part,
)

_KERNEL_DETAILS = re.compile(r"^(?P<name>.+?) (?P<launch>(?:regs|grid|shm):.*)$")
_COPY_TYPE = re.compile(r"<(?P<type>\w+)>")
_HOST_ALLOCATOR = re.compile("cpu|host", re.IGNORECASE)

CALLS = frozenset(
    {
        *("PartitionedCall", "StatefulPartitionedCall", "RemoteCall", "SymbolicGradient", "BatchFunction"),
        *("While", "StatelessWhile", "_While", "If", "StatelessIf", "_If", "Case", "StatelessCase", "For"),
    }
)
"""Types of nodes that run other nodes and end after them."""

Place = Mapping[str, Any]
"""The lane of an event: `tid` and `thread`."""


@dataclass(frozen=True)
class Nodes:
    """Adds the nodes of a device, in lanes, to the events of a run."""

    rows: Rows
    device: Device
    device_name: str
    """As TensorFlow calls it."""
    graph: str | None
    """The name of the graph that ran."""

    def add(self, nodes: Sequence[Any]) -> None:
        """Add them all."""
        on_host = self.device.part is None
        labels = [(read_label if on_host else read_kernel_label)(n.node_name, n.timeline_label) for n in nodes]
        start = [_start_ns(node) for node in nodes]
        end = [begin + _duration_ns(node) for begin, node in zip(start, nodes, strict=True)]
        lanes = assign_lanes(start, end, [on_host and label.op_type in CALLS for label in labels])
        for node, label, lane in zip(nodes, labels, lanes, strict=True):
            place = {
                "tid": lane_number(self.device_name, lane),
                "thread": f"{self.device_name} lane {lane}",
            }
            if on_host:
                self._add_operator(node, label, place)
                self._add_allocations(node, label, place)
            else:
                self._add_device_work(node, label, place)

    def _add_operator(self, node: Any, label: Label, place: Place) -> None:
        outputs = [output.tensor_description for output in node.output]
        shapes, types = _described(tuple((_shape(output.shape), output.dtype) for output in outputs))
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
        self.rows.add_node(
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
            **place,
        )

    def _add_allocations(self, node: Any, label: Label, place: Place) -> None:
        """Add what a node allocated and freed while it ran, inside it, and what was freed later, in another lane.

        Allocations are told in whole microseconds, of which the first may have begun before the node.
        """
        start, end = _start_ns(node), _start_ns(node) + _duration_ns(node)
        for used in node.memory:
            on_host = _HOST_ALLOCATOR.search(used.allocator_name)
            frees = f"{self.device_name} {used.allocator_name} frees"
            later = {"tid": lane_number(frees), "thread": frees}
            for record in used.allocation_records:
                moment = record.alloc_micros * 1000
                self.rows.add(
                    MEMORY,
                    name="[memory]",
                    start_ns=max(start, moment),
                    duration_ns=0,
                    device="cpu:0" if on_host else self.device.name,
                    bytes=record.alloc_bytes,
                    attributes={"allocator": used.allocator_name, "node": label.node},
                    **(place if moment < end else later),
                )

    def _add_device_work(self, node: Any, label: Label, place: Place) -> None:
        meaning, name, details = _device_work(self.device, node.node_name, label)
        said = {"node": label.node, "op_type": label.op_type, "graph": self.graph, "details": details}
        self.rows.add_node(
            meaning,
            label.node,
            label.op_type,
            name=name,
            start_ns=_start_ns(node),
            duration_ns=_duration_ns(node),
            device=self.device.name,
            stream=self.device.stream,
            attributes=said | _times(node),
            **place,
        )


def _device_work(device: Device, node_name: str, label: Label) -> tuple[Meaning, str, str | None]:
    """Return what work of an accelerator is, its name, and what else its label says."""
    part, details = device.part or "", label.details or ""
    meaning = meaning_of_part(part, details)
    if meaning is COPY:
        kind = _COPY_TYPE.search(part)
        return meaning, kind["type"] if kind else (details or node_name).split()[0], details
    kernel = _KERNEL_DETAILS.match(details)
    return (meaning, kernel["name"], kernel["launch"]) if kernel else (meaning, node_name or details, details)


def _start_ns(node: Any) -> int:
    """Return when a node began; older versions tell microseconds only."""
    return int(node.all_start_nanos or node.all_start_micros * 1000)


def _duration_ns(node: Any) -> int:
    return int(node.all_end_rel_nanos if node.all_start_nanos else node.all_end_rel_micros * 1000)


def _times(node: Any) -> dict[str, int]:
    """Return the other times of a node, and the thread, where they say more than start and duration."""
    exact = bool(node.all_start_nanos)
    op_start = node.op_start_rel_nanos if exact else node.op_start_rel_micros * 1000
    op_end = node.op_end_rel_nanos if exact else node.op_end_rel_micros * 1000
    times = {"scheduled_ns": node.scheduled_nanos or node.scheduled_micros * 1000, "thread_id": node.thread_id}
    if (op_start, op_end) != (0, _duration_ns(node)):
        times |= {"op_start_rel_ns": op_start, "op_end_rel_ns": op_end}
    return times


def _sizes(message: Any) -> dict[str, int]:
    """Return the sizes in a message of statistics; those that are zero are not in it."""
    return {field.name: value for field, value in message.ListFields() if isinstance(value, int)}


def _output_memory(outputs: Sequence[Any]) -> dict[str, Any]:
    """Return the memory of each output, which need not have been allocated by the node itself."""
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
def _described(outputs: tuple[tuple[tuple[int, ...] | None, int], ...]) -> tuple[str | None, str | None]:
    """Return shapes and types of outputs as compact JSON."""
    if not outputs:
        return None, None
    return json_text([shape for shape, _ in outputs]), json_text([dtype_name(dtype) for _, dtype in outputs])
