"""Reading RunMetadata and StepStats: bytes in, messages out.

Knows the files, by whatever program they were written; knows nothing of the event schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.foreign import peek_bytes, read_bytes
from unified_profiler_tensorflow.read.protobuf import DAMAGED, message_classes
from unified_profiler_tensorflow.read.run_metadata.names import dtype_enum

_SNIFF = 4096
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
"""StepStats is declared whole, so that it can be written as text. Left out of events: numbers that mean nothing outside
the run (`allocation_id`, `ptr`, `persistent_tensor_alloc_ids`), `has_single_reference`, and names of dimensions, which
are never given. Graphs are counted, not read."""


def holds_step_stats(path: Path) -> bool:
    """Say from the first bytes whether this is a RunMetadata or a StepStats with a device in it."""
    return _depth_of_device(peek_bytes(path, _SNIFF)) is not None


def load(path: Path) -> Any:
    """Read a RunMetadata; a StepStats becomes one.

    Raises:
        TraceFormatError: It cannot be read, is empty, truncated, of another kind, or holds no nodes.
    """
    data = read_bytes(path)
    if not data:
        msg = f"{path} is empty; expected TensorFlow's RunMetadata. Was the profiled program killed while writing it?"
        raise TraceFormatError(msg)
    try:
        metadata = _decode(data)
    except DAMAGED as error:
        found = (
            "damaged, perhaps cut off while it was written or copied" if _depth_of_device(data) else "of another kind"
        )
        msg = f"{path} is {found}: {error}. Expected TensorFlow's RunMetadata or StepStats; record it again."
        raise TraceFormatError(msg) from error
    if not any(device.node_stats for device in metadata.step_stats.dev_stats):
        msg = (
            f"{path} holds no statistics of nodes, so there is nothing to show. Only runs of v1 sessions with a trace "
            "level fill RunMetadata; for eager code, tf.function and Keras record XPlane (tf.profiler.experimental)."
        )
        raise TraceFormatError(msg)
    return metadata


@cache
def messages() -> dict[str, Any]:
    """Return the message classes."""
    return message_classes("unified_profiler.step_stats", _MESSAGES, {"DataType": dtype_enum()})


def _decode(data: bytes) -> Any:
    if _depth_of_device(data) != len(_STEP_STATS):
        return messages()["RunMetadata"].FromString(data)
    return messages()["RunMetadata"](step_stats=messages()["StepStats"].FromString(data))


_STEP_STATS = ("dev_stats", "device")
_RUN_METADATA = ("step_stats", *_STEP_STATS)


def _depth_of_device(data: bytes) -> int | None:
    """Return how many messages deep the name of the first device is, which tells the two kinds apart; or None.

    In both, every field on the way to it has the number 1 and is written first. Other protobufs have none of that, or
    no name of a device there.
    """
    for depth, content in enumerate(_first_fields(data), start=1):
        if depth >= len(_STEP_STATS) and content.startswith(
            (b"/job:", b"/device:", b"/host:", b"/task:", b"/replica:")
        ):
            return depth
        if depth == len(_RUN_METADATA):
            break
    return None


def _first_fields(data: bytes) -> Iterator[bytes]:
    """Step into the first field as long as it has the number 1 and a length that fits into what encloses it."""
    room: int | None = None
    while data[:1] == b"\x0a":
        length, start = _varint(data, 1)
        if room is not None and start + length > room:
            return
        room = length
        data = data[start : start + length]
        yield data


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """Return a number in protobuf's encoding and where it ends."""
    number = shift = 0
    for place, byte in enumerate(data[start : start + 10], start=start):
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, place + 1
    return 0, len(data)
