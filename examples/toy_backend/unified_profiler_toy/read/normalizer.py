"""Reads the JSON files of toy_framework.Profiler."""

from __future__ import annotations

import json
from pathlib import Path

from unified_profiler.model.foreign import peek_bytes, read_bytes, reading
from unified_profiler.model.foreign_values import checked_events
from unified_profiler.model.schema import EventTable, Kind, Layer, event_table
from unified_profiler.spi import NativeCapture
from unified_profiler_toy.canonical.assignment import assignment

COMPACT = json.JSONEncoder(separators=(",", ":")).encode


class ToyNormalizer:
    """Makes a row of each event of the file, in which times are relative to the start of the recording."""

    def recognizes(self, path: Path) -> bool:
        """Return whether a file begins as the native profiler begins it."""
        return peek_bytes(path, 12) == b'{"toy_trace"'

    def normalize(self, capture: NativeCapture) -> EventTable:
        """Return the events of a capture."""
        with reading(capture.files[0], expected="a trace of toy_framework"):
            content = json.loads(read_bytes(capture.files[0]))
            events = content["events"]
            assigned = [assignment(event["name"]) for event in events]
            columns = {
                "name": [event["name"] for event in events],
                "op": [op for op, _, _ in assigned],
                "origin": [origin for _, origin, _ in assigned],
                "direction": [direction for _, _, direction in assigned],
                "layer": Layer.FRAMEWORK.value,
                "kind": Kind.OP.value,
                "framework": "toy",
                "start_ns": [content["epoch_ns"] + event["start"] for event in events],
                "duration_ns": [event["duration"] for event in events],
                "pid": content["process"],
                "tid": [event["thread"] for event in events],
                "device": "cpu:0",
                "input_shapes": [COMPACT(event["shapes"]) if "shapes" in event else None for event in events],
            }
            return checked_events(event_table(columns, rows=len(events)))
