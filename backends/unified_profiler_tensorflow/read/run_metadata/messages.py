"""Builds protobuf classes for StepStats, with which its text is formatted; events are read without them."""

from __future__ import annotations

from functools import cache
from typing import Any

from unified_profiler.spi.protobuf import message_classes
from unified_profiler_tensorflow.read.run_metadata.names import dtype_enum

_MESSAGES = {
    "RunMetadata": {
        "step_stats": (1, "StepStats"),
        "cost_graph": (2, "bytes"),
        "partition_graphs": (3, "repeated bytes"),
        "function_graphs": (4, "repeated bytes"),
        "session_metadata": (5, "SessionMetadata"),
    },
    "SessionMetadata": {"name": (1, "string"), "version": (2, "int64")},
    "StepStats": {"dev_stats": (1, "repeated DeviceStepStats")},
    "DeviceStepStats": {
        "device": (1, "string"),
        "node_stats": (2, "repeated NodeExecStats"),
        "thread_names": (3, "repeated ThreadName"),
    },
    "ThreadName": {"key": (1, "uint32"), "value": (2, "string")},
    "NodeExecStats": {
        "node_name": (1, "string"),
        "all_start_micros": (2, "int64"),
        "op_start_rel_micros": (3, "int64"),
        "op_end_rel_micros": (4, "int64"),
        "all_end_rel_micros": (5, "int64"),
        "memory": (6, "repeated AllocatorMemoryUsed"),
        "output": (7, "repeated NodeOutput"),
        "timeline_label": (8, "string"),
        "scheduled_micros": (9, "int64"),
        "thread_id": (10, "uint32"),
        "referenced_tensor": (11, "repeated AllocationDescription"),
        "memory_stats": (12, "MemoryStats"),
        "all_start_nanos": (13, "int64"),
        "op_start_rel_nanos": (14, "int64"),
        "op_end_rel_nanos": (15, "int64"),
        "all_end_rel_nanos": (16, "int64"),
        "scheduled_nanos": (17, "int64"),
    },
    "AllocatorMemoryUsed": {
        "allocator_name": (1, "string"),
        "total_bytes": (2, "int64"),
        "peak_bytes": (3, "int64"),
        "live_bytes": (4, "int64"),
        "allocator_bytes_in_use": (5, "int64"),
        "allocation_records": (6, "repeated AllocationRecord"),
    },
    "AllocationRecord": {"alloc_micros": (1, "int64"), "alloc_bytes": (2, "int64")},
    "MemoryStats": {
        "temp_memory_size": (1, "int64"),
        "device_temp_memory_size": (2, "int64"),
        "persistent_memory_size": (3, "int64"),
        "device_persistent_memory_size": (4, "int64"),
        "persistent_tensor_alloc_ids": (5, "repeated int64"),
        "device_persistent_tensor_alloc_ids": (6, "repeated int64"),
    },
    "NodeOutput": {"slot": (1, "int32"), "tensor_description": (3, "TensorDescription")},
    "TensorDescription": {
        "dtype": (1, "DataType"),
        "shape": (2, "TensorShapeProto"),
        "allocation_description": (4, "AllocationDescription"),
    },
    "TensorShapeProto": {"dim": (2, "repeated Dim"), "unknown_rank": (3, "bool")},
    "Dim": {"size": (1, "int64"), "name": (2, "string")},
    "AllocationDescription": {
        "requested_bytes": (1, "int64"),
        "allocated_bytes": (2, "int64"),
        "allocator_name": (3, "string"),
        "allocation_id": (4, "int64"),
        "has_single_reference": (5, "bool"),
        "ptr": (6, "uint64"),
    },
}
"""StepStats is declared completely, RunMetadata without the content of its graphs."""


@cache
def messages() -> dict[str, Any]:
    """Return the message classes."""
    return message_classes("unified_profiler.step_stats", _MESSAGES, {"DataType": dtype_enum()})
