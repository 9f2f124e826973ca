"""Memory of a device, from the tables of MindSpore's analysis: what was allocated for whom, and totals over time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.schema import Kind, Layer
from unified_profiler_mindspore.trace_view import Row, has_value, nanoseconds, read_table


def allocations(path: Path) -> Iterator[Row]:
    """Return an event for each allocation, and one for each release."""
    for row in read_table(path):
        size = round(_number(row, "Size(KB)", path) * 1024)
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
            total = _number(row, f"{word} Total Allocated(MB)", path) * 2**20
            extra = {
                name.removeprefix(f"{word} "): value
                for name, value in row.items()
                if name in {f"{word} Total Reserved(MB)", f"{word} Total Active(MB)", "Stream Ptr"} and has_value(value)
            }
            yield common | {
                "start_ns": nanoseconds(row[f"{word} Time(us)"], path),
                "bytes": sign * size,
                "value": total,
                "attributes": json.dumps(extra, separators=(",", ":")),
            }


def memory(path: Path) -> Iterator[Row]:
    """Return counters of memory, one for each total of each component, in the units of the file."""
    for row in read_table(path):
        for name in ("Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)"):
            if has_value(row.get(name, "")):
                yield {
                    "name": f"{row.get('Component', '')} {name}".strip(),
                    "layer": Layer.RUNTIME.value,
                    "kind": Kind.COUNTER.value,
                    "start_ns": nanoseconds(row.get("Timestamp(us)", ""), path),
                    "duration_ns": 0,
                    "value": _number(row, name, path),
                    "device": row.get("Device Type", "").lower(),
                }


def _number(row: Mapping[str, str], name: str, path: Path) -> float:
    try:
        return float(row[name])
    except (KeyError, ValueError) as error:
        msg = f"{path}: expected a number in the column {name!r}, found {row.get(name)!r}."
        raise TraceFormatError(msg) from error
