"""Memory of a device, from the tables of MindSpore's analysis: what was allocated for whom, and totals over time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path

from unified_profiler.model.foreign_values import whole
from unified_profiler.model.schema import Kind, Layer
from unified_profiler_mindspore.read.device.trace_view import Row, converted_rows, has_value, nanoseconds


def allocations(path: Path) -> Iterator[Row]:
    """Return an event for each allocation, and one for each release."""
    return converted_rows(path, _allocation)


def memory(path: Path) -> Iterator[Row]:
    """Return counters of memory, one for each total of each component, in the units of the file."""
    return converted_rows(path, _totals)


def _allocation(row: Mapping[str, str]) -> Iterator[Row]:
    size = whole(round(_number(row, "Size(KB)") * 1024))
    common: Row = {
        "name": row.get("Name", ""),
        "layer": Layer.RUNTIME.value,
        "kind": Kind.MEMORY.value,
        "duration_ns": 0,
        "device": row.get("Device Type", "").lower(),
    }
    for word, sign in (("Allocation", 1), ("Release", -1)):
        if not has_value(row.get(f"{word} Time(us)", "")):
            continue
        total = _number(row, f"{word} Total Allocated(MB)") * 2**20
        extra = {
            name.removeprefix(f"{word} "): value
            for name, value in row.items()
            if name in {f"{word} Total Reserved(MB)", f"{word} Total Active(MB)", "Stream Ptr"} and has_value(value)
        }
        yield common | {
            "start_ns": nanoseconds(row[f"{word} Time(us)"]),
            "bytes": None if size is None else sign * size,
            "value": total,
            "attributes": json.dumps(extra, separators=(",", ":")),
        }


def _totals(row: Mapping[str, str]) -> Iterator[Row]:
    for name in ("Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)"):
        if has_value(row.get(name, "")):
            yield {
                "name": f"{row.get('Component', '')} {name}".strip(),
                "layer": Layer.RUNTIME.value,
                "kind": Kind.COUNTER.value,
                "start_ns": nanoseconds(row.get("Timestamp(us)", "")),
                "duration_ns": 0,
                "value": _number(row, name),
                "device": row.get("Device Type", "").lower(),
            }


def _number(row: Mapping[str, str], name: str) -> float:
    number = float(row[name])
    if not isfinite(number):
        msg = f"expected a number in the column {name!r}, found {row[name]!r:.100}"
        raise ValueError(msg)
    return number
