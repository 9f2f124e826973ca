"""Converts the memory tables of MindSpore's analysis to events: allocations by operator, and totals over time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite

from unified_profiler.model.foreign_values import int_or_none
from unified_profiler.model.schema import Kind, Layer
from unified_profiler_mindspore.read.device.trace_view import Row, has_value, nanoseconds


def allocation_rows(row: Mapping[str, str]) -> Iterator[Row]:
    """Yield an event for the allocation, and one for the release."""
    size = int_or_none(round(_number(row, "Size(KB)") * 1024))
    common: Row = {
        "name": row.get("Name", ""),
        "layer": Layer.RUNTIME.value,
        "kind": Kind.MEMORY.value,
        "duration_ns": 0,
        "device": row.get("Device Type", "").lower(),
    }
    for action, sign in (("Allocation", 1), ("Release", -1)):
        if not has_value(row.get(f"{action} Time(us)", "")):
            continue
        total = _number(row, f"{action} Total Allocated(MB)") * 2**20
        extra = {
            name.removeprefix(f"{action} "): value
            for name, value in row.items()
            if name in {f"{action} Total Reserved(MB)", f"{action} Total Active(MB)", "Stream Ptr"} and has_value(value)
        }
        yield common | {
            "start_ns": nanoseconds(row[f"{action} Time(us)"]),
            "bytes": None if size is None else sign * size,
            "value": total,
            "attributes": json.dumps(extra, separators=(",", ":")),
        }


def total_rows(row: Mapping[str, str]) -> Iterator[Row]:
    """Yield a counter event for each total of the component, in the unit of the file."""
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
