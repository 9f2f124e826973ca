"""The reader keeps what an independent walk of the raw JSON sees: times, classes, streams, launches and steps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from tests.devices.kineto_walk import COMMUNICATION, COMPUTE, COPY, walk

GOLDEN = Path(__file__).parents[1] / "golden" / "kineto"
CLASSES = {"kernel": COMPUTE, "collective": COMMUNICATION, "copy": COPY}
COLUMNS = ["name", "kind", "layer", "device", "stream", "start_ns", "duration_ns", "step", "correlation_id", "bytes"]


def device_work(path: Path) -> Counter[tuple[Any, ...]]:
    """Return the work of devices as read, each piece with the start of its launch."""
    rows = up.read(path).traces[0].events.select(COLUMNS).to_pylist()
    launches: dict[int, int] = {}
    for row in rows:
        if row["kind"] == "runtime" and row["device"].startswith("cpu") and row["correlation_id"] is not None:
            launches.setdefault(row["correlation_id"], row["start_ns"])
    return Counter(
        (
            row["name"],
            CLASSES[row["kind"]],
            int(row["device"].partition(":")[2]),
            int(row["stream"]),
            row["start_ns"],
            row["start_ns"] + row["duration_ns"],
            row["step"],
            launches.get(row["correlation_id"]),
            row["bytes"],
        )
        for row in rows
        if row["kind"] in CLASSES and row["layer"] == "runtime" and not row["device"].startswith("cpu")
    )


def walked_work(path: Path) -> Counter[tuple[Any, ...]]:
    """Return the same from the walk."""
    return Counter(
        (
            span.name,
            span.work_class,
            span.device,
            span.stream,
            span.start,
            span.end,
            span.step,
            None if span.launch is None else span.launch.start,
            span.bytes,
        )
        for span in walk(path).work
    )


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json.gz")), ids=lambda path: path.name)
def test_device_work_is_read_as_recorded(path: Path) -> None:
    assert device_work(path) == walked_work(path)
