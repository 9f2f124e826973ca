"""Decodes files with RunMetadata or StepStats, written by any program, to protobuf messages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.foreign import peek_bytes, read_bytes
from unified_profiler.spi.protobuf import DAMAGED, message_classes
from unified_profiler_tensorflow.read.run_metadata.names import dtype_enum

_SNIFF = 4096
_DEVICE_PREFIXES = (b"/job:", b"/device:", b"/host:", b"/task:", b"/replica:")
_STEP_STATS_DEPTH = 2
"""Depth of a device name in StepStats: `dev_stats`, `device`."""
_RUN_METADATA_DEPTH = 1 + _STEP_STATS_DEPTH
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
"""StepStats is declared completely, so that it can be formatted as text. Left out of events: ids that mean nothing
outside the run (`allocation_id`, `ptr`, `persistent_tensor_alloc_ids`), `has_single_reference`, and dimension names,
which are never set. Graphs are counted, not decoded."""


def recognizes(path: Path) -> bool:
    """Return whether the first bytes are those of a RunMetadata or a StepStats with a device."""
    return _device_depth(peek_bytes(path, _SNIFF)) is not None


def load(path: Path) -> Any:
    """Read a RunMetadata; a StepStats is wrapped in one.

    Raises:
        TraceFormatError: The file cannot be read, is empty, truncated, of another format, or contains no nodes.
    """
    data = read_bytes(path)
    if not data:
        msg = f"{path} is empty; expected TensorFlow's RunMetadata. Was the profiled program killed while writing it?"
        raise TraceFormatError(msg)
    try:
        metadata = _decode(data)
    except DAMAGED as error:
        is_damaged = _device_depth(data) is not None
        reason = "damaged, perhaps cut off while it was written or copied" if is_damaged else "of another kind"
        msg = f"{path} is {reason}: {error}. Expected TensorFlow's RunMetadata or StepStats; record it again."
        raise TraceFormatError(msg) from error
    if not any(device.node_stats for device in metadata.step_stats.dev_stats):
        msg = (
            f"{path} contains no node statistics, so there is nothing to show. Only runs of v1 sessions with a trace "
            "level fill RunMetadata; for eager code, tf.function and Keras record XPlane (tf.profiler.experimental)."
        )
        raise TraceFormatError(msg)
    return metadata


@cache
def messages() -> dict[str, Any]:
    """Return the message classes."""
    return message_classes("unified_profiler.step_stats", _MESSAGES, {"DataType": dtype_enum()})


def _decode(data: bytes) -> Any:
    if _device_depth(data) != _STEP_STATS_DEPTH:
        return messages()["RunMetadata"].FromString(data)
    return messages()["RunMetadata"](step_stats=messages()["StepStats"].FromString(data))


def _device_depth(data: bytes) -> int | None:
    """Return how many messages deep the name of the first device is nested, which distinguishes the two formats.

    In both, every field on the way to it has the number 1 and is written first. None for other protobufs, which have
    no device name there.
    """
    for depth, content in enumerate(islice(_first_fields(data), _RUN_METADATA_DEPTH), start=1):
        if depth >= _STEP_STATS_DEPTH and content.startswith(_DEVICE_PREFIXES):
            return depth
    return None


def _first_fields(data: bytes) -> Iterator[bytes]:
    """Yield the content of nested first fields with the number 1, as long as each fits into the enclosing one."""
    room: int | None = None
    while data[:1] == b"\x0a":
        length, start = _varint(data, 1)
        if room is not None and start + length > room:
            return
        room = length
        data = data[start : start + length]
        yield data


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """Return a number in protobuf's variable-length encoding and the position after it."""
    number = shift = 0
    for position, byte in enumerate(data[start : start + 10], start=start):
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, position + 1
    return 0, len(data)
