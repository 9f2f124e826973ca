"""Categories of device events beyond CUDA's: those of MTIA, and the capitalized ones of old versions of Kineto."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up


def read(path: Path, *events: dict[str, Any]) -> list[dict[str, Any]]:
    complete = [{"ph": "X", "pid": 0, "tid": 7, "ts": 10.0, "dur": 2.0, "args": {}, **event} for event in events]
    document = {"schemaVersion": 1, "traceEvents": complete}
    path.write_text(json.dumps(document), encoding="utf-8")
    rows: list[dict[str, Any]] = up.read(path).traces[0].events.to_pylist()
    return rows


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("fc-dtype_Float", "kernel"),
        ("dma_request", "copy"),
        ("event_wait", "runtime"),
        ("event_record", "runtime"),
    ],
)
def test_events_of_mtia_are_classified_by_name(tmp_path: Path, name: str, kind: str) -> None:
    launch = {"cat": "mtia_runtime", "name": "launch", "pid": 1, "tid": 1}
    row = next(
        row
        for row in read(tmp_path / "trace.json", launch, {"cat": "mtia_ccp_events", "name": name})
        if row["name"] == name
    )
    assert (row["kind"], row["layer"], row["device"]) == (kind, "runtime", "mtia:0")


def test_copies_of_mtia_have_their_size_and_direction(tmp_path: Path) -> None:
    args = {"direction": "DEVICE_TO_HOST", "size": 1024, "stream": 105, "sqid": 8}
    (row,) = read(tmp_path / "trace.json", {"cat": "mtia_ccp_events", "name": "dma_request", "args": args})
    assert (row["bytes"], row["stream"]) == (1024, 105)
    assert json.loads(row["attributes"]) == {"direction": "DEVICE_TO_HOST", "sqid": 8}


@pytest.mark.parametrize(("category", "kind"), [("Kernel", "kernel"), ("Memcpy", "copy"), ("Memset", "copy")])
def test_capitalized_categories_are_those_of_the_device(tmp_path: Path, category: str, kind: str) -> None:
    (row,) = read(tmp_path / "trace.json", {"cat": category, "name": "work"})
    assert (row["kind"], row["device"]) == (kind, "cuda:0")
