"""Decodes files with RunMetadata or StepStats, written by any program, down to the nodes of each device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.foreign import peek_bytes, read_bytes
from unified_profiler.spi.wire import Buffer, Messages, WireError

_SNIFF = 4096
_DEVICE_PREFIXES = (b"/job:", b"/device:", b"/host:", b"/task:", b"/replica:")
_STEP_STATS_DEPTH = 2
"""Depth of a device name in StepStats: `dev_stats`, `device`."""
_RUN_METADATA_DEPTH = 1 + _STEP_STATS_DEPTH

# Field numbers of RunMetadata, SessionMetadata, StepStats, DeviceStepStats and the entries of `thread_names`.
_STEP_STATS, _COST_GRAPH, _PARTITION_GRAPHS, _FUNCTION_GRAPHS, _SESSION = 1, 2, 3, 4, 5
_SESSION_NAME, _SESSION_VERSION = 1, 2
_DEV_STATS = 1
_DEVICE, _NODE_STATS, _THREAD_NAMES = 1, 2, 3
_KEY, _VALUE = 1, 2


@dataclass(frozen=True)
class DeviceStats:
    """The nodes that ran on a device, or on a part of it that has its own nodes."""

    name: str
    nodes: Messages
    """NodeExecStats."""


@dataclass(frozen=True)
class RunMetadata:
    """The content of a file. Graphs are counted, not decoded."""

    devices: tuple[DeviceStats, ...]
    thread_names: dict[str, str]
    partition_graph_count: int
    function_graph_count: int
    cost_graph_bytes: int
    session_name: str
    session_version: int


def recognizes(path: Path) -> bool:
    """Return whether the first bytes are those of a RunMetadata or a StepStats with a device."""
    return _device_depth(peek_bytes(path, _SNIFF)) is not None


def is_step_stats(data: bytes) -> bool:
    """Return whether this is a StepStats rather than a RunMetadata."""
    return _device_depth(data) == _STEP_STATS_DEPTH


def load(path: Path) -> RunMetadata:
    """Read a RunMetadata, or a StepStats as one that contains nothing else.

    Raises:
        TraceFormatError: The file cannot be read, is empty, truncated, of another format, or contains no nodes.
    """
    data = read_bytes(path)
    if not data:
        msg = f"{path} is empty; expected TensorFlow's RunMetadata. Was the profiled program killed while writing it?"
        raise TraceFormatError(msg)
    try:
        metadata = _decode(data)
    except (WireError, UnicodeDecodeError) as error:
        is_damaged = _device_depth(data) is not None
        reason = "damaged, perhaps cut off while it was written or copied" if is_damaged else "of another kind"
        msg = f"{path} is {reason}: {error}. Expected TensorFlow's RunMetadata or StepStats; record it again."
        raise TraceFormatError(msg) from error
    if not any(device.nodes.count for device in metadata.devices):
        msg = (
            f"{path} contains no node statistics, so there is nothing to show. Only runs of v1 sessions with a trace "
            "level fill RunMetadata; for eager code, tf.function and Keras record XPlane (tf.profiler.experimental)."
        )
        raise TraceFormatError(msg)
    return metadata


def _decode(data: bytes) -> RunMetadata:
    whole, is_stats = Buffer(data).messages(), is_step_stats(data)
    # without the fields of a RunMetadata, which have other meanings in a StepStats
    run = Buffer(b"").messages() if is_stats else whole
    stats = whole if is_stats else whole.children(_STEP_STATS)[1]
    devices = stats.children(_DEV_STATS)[1]
    session = run.child(_SESSION)
    return RunMetadata(
        tuple(_devices(devices)),
        _thread_names(devices),
        len(run.ranges(_PARTITION_GRAPHS).start),
        len(run.ranges(_FUNCTION_GRAPHS).start),
        len(run.texts(_COST_GRAPH)[0]),
        session.texts(_SESSION_NAME)[0].decode(),
        int(session.integers(_SESSION_VERSION)[0]),
    )


def _devices(devices: Messages) -> Iterator[DeviceStats]:
    nodes = devices.ranges(_NODE_STATS)
    edges = np.searchsorted(nodes.message, np.arange(devices.count + 1)).tolist()
    for index, name in enumerate(devices.texts(_DEVICE)):
        rows = slice(edges[index], edges[index + 1])
        yield DeviceStats(name.decode(), devices.buffer.messages(nodes.start[rows], nodes.end[rows]))


def _thread_names(devices: Messages) -> dict[str, str]:
    _, entries = devices.children(_THREAD_NAMES)
    names = zip(entries.integers(_KEY).tolist(), entries.texts(_VALUE), strict=True)
    return {str(number): name.decode() for number, name in names}


def _device_depth(data: bytes) -> int | None:
    """Return how many messages deep the name of the first device is nested, which distinguishes the two formats.

    In both, every field on the way to it has the number 1 and is written first. None for other protobufs, which have
    no device name there.
    """
    # only the beginning: each content is a copy
    for depth, content in enumerate(islice(_first_fields(data[:_SNIFF]), _RUN_METADATA_DEPTH), start=1):
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
