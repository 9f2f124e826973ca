"""Decodes NodeExecStats into columns: times, labels, outputs and memory of the nodes of a device.

Left out are ids that mean nothing outside the run (`allocation_id`, `ptr`, `persistent_tensor_alloc_ids`),
`has_single_reference`, and dimension names, which are never set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.arrow_arrays import number_array, text_array
from unified_profiler.model.columns import Index
from unified_profiler.model.foreign_values import LARGEST
from unified_profiler.model.nesting import Ints
from unified_profiler.spi.groups import distinct_rows, group_codes
from unified_profiler.spi.wire import Messages
from unified_profiler_tensorflow.read.run_metadata.builder import json_text
from unified_profiler_tensorflow.read.run_metadata.names import dtype_name

# Field numbers of NodeExecStats; those of times are of the field in microseconds and of that in nanoseconds.
_NODE_NAME, _MEMORY, _OUTPUT, _TIMELINE_LABEL, _THREAD_ID, _REFERENCED_TENSOR, _MEMORY_STATS = 1, 6, 7, 8, 10, 11, 12
_ALL_START, _OP_START, _OP_END, _ALL_END, _SCHEDULED = (2, 13), (3, 14), (4, 15), (5, 16), (9, 17)
# Of AllocatorMemoryUsed and AllocationRecord.
_ALLOCATOR_NAME, _TOTAL_BYTES, _ALLOCATION_RECORDS = 1, 2, 6
_USED_SIZES = {2: "total_bytes", 3: "peak_bytes", 4: "live_bytes", 5: "allocator_bytes_in_use"}
_ALLOC_MICROS, _ALLOC_BYTES = 1, 2
# Of MemoryStats.
_STATISTICS = {
    1: "temp_memory_size",
    2: "device_temp_memory_size",
    3: "persistent_memory_size",
    4: "device_persistent_memory_size",
}
# Of NodeOutput, TensorDescription, TensorShapeProto, Dim and AllocationDescription.
_SLOT, _TENSOR = 1, 3
_DTYPE, _SHAPE, _ALLOCATION = 1, 2, 4
_DIM, _UNKNOWN_RANK = 2, 3
_SIZE = 1
_REQUESTED_BYTES, _ALLOCATED_BYTES, _ALLOCATION_ALLOCATOR = 1, 2, 3

Value = TypeVar("Value")


class Coded(NamedTuple, Generic[Value]):
    """A column with few distinct values: the index of each row's value, and the values."""

    codes: Ints
    values: list[Value]


class Outputs(NamedTuple):
    """The outputs of a node."""

    shapes: str | None
    types: str | None
    attributes: str


class UsedMemory(NamedTuple):
    """The memory that a node allocated."""

    bytes: int | None
    attributes: str


class Allocations(NamedTuple):
    """The allocations and frees of all nodes."""

    node: Ints
    allocator: Coded[str]
    timestamp_ns: Ints
    bytes: Ints


@dataclass(frozen=True)
class NodeStats:
    """The nodes of a device. Attributes are members of a JSON object, each followed by a comma."""

    nodes: Messages

    @cached_property
    def labels(self) -> Coded[tuple[bytes, bytes]]:
        """Name and timeline label."""
        texts = Index()
        codes = texts.codes(zip(self.nodes.texts(_NODE_NAME), self.nodes.texts(_TIMELINE_LABEL), strict=True))
        return Coded(codes, list(texts))

    @cached_property
    def start_ns(self) -> Ints:
        """Start of each node."""
        return self._times(_ALL_START)

    @cached_property
    def duration_ns(self) -> Ints:
        """Duration of each node."""
        return self._times(_ALL_END)

    def times(self) -> list[pa.StringArray]:
        """Return thread and other times of each node, those of the operator only if they differ from the node's."""
        scheduled = self.nodes.integers(_SCHEDULED[1])
        scheduled = np.where(scheduled != 0, scheduled, _nanoseconds(self.nodes.integers(_SCHEDULED[0])))
        op_start, op_end = map(self._times, (_OP_START, _OP_END))
        differs = (op_start != 0) | (op_end != self.duration_ns)
        members = {
            "scheduled_ns": scheduled,
            "thread_id": self.nodes.integers(_THREAD_ID),
            "op_start_rel_ns": op_start,
            "op_end_rel_ns": np.where(differs, op_end, 0),
        }
        return [_number_members(name, values) for name, values in members.items() if values.any()]

    def outputs(self) -> Coded[Outputs]:
        """Return shapes, types and memory of the outputs, which the node itself need not have allocated."""
        owner, outputs = self.nodes.children(_OUTPUT)
        tensor = outputs.child(_TENSOR)
        shape, allocation = tensor.child(_SHAPE), tensor.child(_ALLOCATION)
        shapes, allocators = Index(), Index()
        dim_owner, dims = shape.children(_DIM)
        columns = (
            outputs.integers(_SLOT),
            tensor.integers(_DTYPE),
            group_codes(dim_owner, dims.integers(_SIZE), shape.count, shapes),
            shape.integers(_UNKNOWN_RANK),
            *map(allocation.integers, (_REQUESTED_BYTES, _ALLOCATED_BYTES)),
            allocators.codes(allocation.texts(_ALLOCATION_ALLOCATOR)),
        )
        known_shapes, names = list(shapes), [name.decode() for name in allocators]

        def describe(rows: list[tuple[int, ...]]) -> Outputs:
            resolved = [
                (slot, dtype, None if unknown else known_shapes[shape], *sizes, names[allocator])
                for slot, dtype, shape, unknown, *sizes, allocator in rows
            ]
            return _outputs(resolved)

        return self._lists(owner, columns, describe)

    def memory(self) -> Coded[UsedMemory]:
        """Return the memory by allocator."""
        names = [name.decode() for name in self._allocators.values]
        columns = (self._allocators.codes, *map(self._used.integers, _USED_SIZES))

        def describe(rows: list[tuple[int, ...]]) -> UsedMemory:
            sizes = {names[allocator]: _present(_USED_SIZES.values(), values) for allocator, *values in rows}
            return UsedMemory(sum(total for _, total, *_ in rows) if rows else None, members({"memory": sizes}))

        return self._lists(self._user, columns, describe)

    def statistics(self) -> Coded[str]:
        """Return the attributes of memory that persists, or was temporary."""
        stats = self.nodes.child(_MEMORY_STATS)
        codes, rows = distinct_rows(*map(stats.integers, _STATISTICS))
        return Coded(codes, [members(_present(_STATISTICS.values(), row)) for row in rows])

    def references(self) -> Coded[str]:
        """Return the attributes of referenced tensors."""
        owner, tensors = self.nodes.children(_REFERENCED_TENSOR)
        sizes = Index()
        codes = group_codes(owner, tensors.integers(_REQUESTED_BYTES), self.nodes.count, sizes)
        return Coded(codes, [members({"referenced_bytes": each}) for each in sizes])

    def allocations(self) -> Allocations:
        """Return the allocations and frees, in the order of their nodes. Their times are whole microseconds."""
        used, records = self._used.children(_ALLOCATION_RECORDS)
        allocator = Coded(self._allocators.codes[used], [name.decode() for name in self._allocators.values])
        timestamps = _nanoseconds(records.integers(_ALLOC_MICROS))
        return Allocations(self._user[used], allocator, timestamps, records.integers(_ALLOC_BYTES))

    @cached_property
    def _memory(self) -> tuple[Ints, Messages]:
        return self.nodes.children(_MEMORY)

    @property
    def _user(self) -> Ints:
        return self._memory[0]

    @property
    def _used(self) -> Messages:
        return self._memory[1]

    @cached_property
    def _allocators(self) -> Coded[bytes]:
        names = Index()
        codes = names.codes(self._used.texts(_ALLOCATOR_NAME))
        return Coded(codes, list(names))

    def _lists(
        self, owner: Ints, columns: tuple[Ints, ...], describe: Callable[[list[tuple[int, ...]]], Value]
    ) -> Coded[Value]:
        """Describe each distinct list of rows that a node owns."""
        code, rows = distinct_rows(*columns)
        lists = Index()
        codes = group_codes(owner, code, self.nodes.count, lists)
        return Coded(codes, [describe([rows[number] for number in each]) for each in lists])

    @cached_property
    def _has_nanoseconds(self) -> Any:
        """Older versions store microseconds only."""
        return self.nodes.integers(_ALL_START[1]) != 0

    def _times(self, fields: tuple[int, int]) -> Ints:
        in_micros, in_nanos = map(self.nodes.integers, fields)
        micros = np.where(self._has_nanoseconds, 0, in_micros)
        return np.where(self._has_nanoseconds, in_nanos, _nanoseconds(micros))


def members(attributes: Mapping[str, Any]) -> str:
    """Return members of a JSON object, each followed by a comma; those that are None, empty or zero are left out."""
    present = {key: value for key, value in attributes.items() if value or value is False}
    return json_text(present)[1:-1] + "," if present else ""


def _nanoseconds(microseconds: Ints) -> Ints:
    outside = np.flatnonzero(np.abs(microseconds) > LARGEST // 1000)
    if len(outside):
        msg = f"a node or an allocation has a time of {microseconds[outside[0]]} microseconds"
        raise ValueError(msg)
    return microseconds * 1000


def _present(names: Any, values: Any) -> dict[str, int]:
    return {name: value for name, value in zip(names, values, strict=True) if value}


def _number_members(name: str, values: Ints) -> pa.StringArray:
    """Return a member of the JSON object of each node; an empty text where the value is zero."""
    key, comma, nothing = text_array([f'"{name}":', ",", ""])
    members = pc.binary_join_element_wise(key, number_array(values).cast(pa.string()), comma, nothing)
    return pc.if_else(number_array(values != 0), members, nothing)


def _outputs(rows: list[tuple[Any, ...]]) -> Outputs:
    if not rows:
        return Outputs(None, None, "")
    slots, dtypes, shapes, requested, allocated, allocators = (list(column) for column in zip(*rows, strict=True))
    attributes = {
        "output_bytes": requested,
        "output_allocated_bytes": allocated,
        "output_allocators": sorted({name for name in allocators if name}),
        "output_slots": slots if slots != list(range(len(slots))) else None,
    }
    return Outputs(json_text(shapes), json_text(list(map(dtype_name, dtypes))), members(attributes))
