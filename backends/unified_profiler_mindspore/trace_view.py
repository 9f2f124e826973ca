"""The files of an ASCEND_PROFILER_OUTPUT directory, which MindSpore's analysis writes, as plain rows.

    trace_view.json        chrome trace: spans, instants, counters, arrows, names of processes and threads
    kernel_details.csv     what ran on the device, with types and shapes
    operator_memory.csv    what was allocated for which operator, when it was allocated and released
    memory_record.csv      memory over time
    step_trace_time.csv    how long each step computed, communicated and idled

Not read are those of `LEFT_OUT`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec

from unified_profiler.errors import TraceFormatError

OUTPUT = "ASCEND_PROFILER_OUTPUT"
TRACE = "trace_view.json"
KERNELS = "kernel_details.csv"
ALLOCATIONS = "operator_memory.csv"
MEMORY = "memory_record.csv"
STEP_TIMES = "step_trace_time.csv"

LEFT_OUT = {
    "api_statistic.csv": "sums over the events",
    "op_statistic.csv": "sums over the events",
    "communication.json": "sums over the events",
    "communication_matrix.json": "sums over the events",
    "npu_module_mem.csv": "memory of the device's own components, not of the program",
    "dataset.csv": "no times",
    "minddata_pipeline_*": "samples of the input pipeline's queues",
    "ascend_mindspore_profiler_*.db": "the same as a database",
}
"""Files of the analysis that are not read, and why."""


Row = dict[str, Any]
"""Columns of the event schema for one event."""


class Entry(msgspec.Struct, gc=False):
    """An event of the chrome trace; times are microseconds, mostly as text."""

    ph: str
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: str | float = 0.0
    dur: str | float = 0.0
    cat: str = ""
    id: int | str | None = None
    args: dict[str, Any] = {}


def read_trace(path: Path) -> list[Entry]:
    """Read the chrome trace.

    Raises:
        TraceFormatError: It is damaged or of another kind.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Entry])
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        msg = f"{path} is no chrome trace of MindSpore, or was cut off: {error}"
        raise TraceFormatError(msg) from error


def read_table(path: Path) -> list[dict[str, str]]:
    """Read a table; a file that is not there is an empty one.

    Raises:
        TraceFormatError: It is damaged.
    """
    if not path.is_file():
        return []
    try:
        return list(_rows(path))
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        msg = f"{path} cannot be read: {error}"
        raise TraceFormatError(msg) from error


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            if None in row or None in row.values():
                msg = f"{path} has a row with more or fewer fields than its first line names: {list(row.values())[:4]}"
                raise TraceFormatError(msg)
            yield {name.strip(): value.strip() for name, value in row.items()}


def nanoseconds(microseconds: str | float, path: Path) -> int:
    """Convert microseconds, exactly if they are text.

    Raises:
        TraceFormatError: It is no number.
    """
    try:
        return int((Decimal(microseconds) * 1000).to_integral_value())
    except (InvalidOperation, ValueError, OverflowError) as error:
        msg = f"{path}: expected a time in microseconds, found {microseconds!r}."
        raise TraceFormatError(msg) from error


def has_value(text: str) -> bool:
    """Say whether a field of a table holds anything."""
    return text.strip('"') not in {"", "N/A"}
