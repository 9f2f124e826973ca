"""Reads the files of an ASCEND_PROFILER_OUTPUT directory, which MindSpore's analysis writes, as plain rows.

    trace_view.json        chrome trace: spans, instants, counters, arrows, names of processes and threads
    kernel_details.csv     kernels on the device, with types and shapes
    operator_memory.csv    allocations by operator, with the times of allocation and release
    memory_record.csv      memory over time
    step_trace_time.csv    computing, communication and idle time of each step

Not read: api_statistic.csv, op_statistic.csv, communication.json and communication_matrix.json (sums over the events),
npu_module_mem.csv (memory of the device's own components), dataset.csv (no times), minddata_pipeline_* (samples of the
input pipeline's queues), and ascend_mindspore_profiler_*.db (the same data as a database).
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


def read_table(path: Path) -> list[dict[str, str]]:
    """Read a table; a missing file counts as an empty one.

    Raises:
        TraceFormatError: It is damaged.
    """
    if not path.is_file():
        return []
    with reading(path, expected=_TABLE):
        return list(_rows(read_bytes(path).decode("utf-8-sig")))


def converted_rows(path: Path, convert: Callable[[dict[str, str]], Iterable[_Converted]]) -> Iterator[_Converted]:
    """Yield the values that `convert` returns for each row of a table.

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
        ValueError: It is not a time.
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
    """Return whether a field of a table has a value."""
    return text.strip('"') not in {"", "N/A"}
