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
import io
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from unified_profiler.model.foreign import read_bytes, reading
from unified_profiler.model.foreign_values import LARGEST

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
_Converted = TypeVar("_Converted")
_TABLE = "a table of MindSpore's profiler"


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
    with reading(path, expected="a chrome trace of MindSpore"):
        return msgspec.json.decode(read_bytes(path), type=list[Entry])


def read_table(path: Path) -> list[dict[str, str]]:
    """Read a table; a file that is not there is an empty one.

    Raises:
        TraceFormatError: It is damaged.
    """
    if not path.is_file():
        return []
    with reading(path, expected=_TABLE):
        return list(_rows(read_bytes(path).decode("utf-8-sig")))


def converted_rows(path: Path, convert: Callable[[dict[str, str]], Iterable[_Converted]]) -> Iterator[_Converted]:
    """Yield what comes of each row of a table.

    Raises:
        TraceFormatError: It is damaged, or a row of it cannot be converted.
    """
    for number, row in enumerate(read_table(path), start=1):
        with reading(f"{path}, row {number}", expected=_TABLE):
            yield from convert(row)


def _rows(text: str) -> Iterator[dict[str, str]]:
    lines = csv.DictReader(io.StringIO(text, newline=""))
    for row in lines:
        if None in row or None in row.values():
            msg = f"line {lines.line_num} has more or fewer fields than the first names: {list(row.values())[:4]}"
            raise ValueError(msg)
        yield {name.strip(): value.strip() for name, value in row.items()}


def nanoseconds(microseconds: str | float) -> int:
    """Convert microseconds, exactly if they are text.

    Raises:
        ValueError: It is no time.
    """
    try:
        exact = Decimal(microseconds) * 1000
        if abs(exact) <= LARGEST:
            return int(exact.to_integral_value())
    except ArithmeticError:
        pass
    msg = f"expected a time in microseconds, found {microseconds!r:.100}"
    raise ValueError(msg)


def has_value(text: str) -> bool:
    """Say whether a field of a table holds anything."""
    return text.strip('"') not in {"", "N/A"}
