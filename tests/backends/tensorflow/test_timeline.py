from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tensorflow.core.framework import step_stats_pb2
from tensorflow.python.client.timeline import Timeline

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.assembly import assemble
from unified_profiler.model.schema import EVENT_SCHEMA
from unified_profiler_tensorflow.read.run_metadata import events as run_metadata
from unified_profiler_tensorflow.read.run_metadata import timeline

GOLDEN = Path(__file__).parents[2] / "golden" / "run_metadata"
DOCUMENT = GOLDEN / "multiply_timeline.json"
SAME = ("name", "op", "origin", "direction", "module", "layer", "kind", "device")


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str], Path]:
    """Saves text to a file."""

    def save(text: str) -> Path:
        path = tmp_path / "timeline-3.json"
        path.write_text(text, encoding="utf-8")
        return path

    return save


def _operators(table: Any) -> list[dict[str, Any]]:
    rows = [row for row in table.to_pylist() if row["kind"] == "op"]
    return sorted(rows, key=lambda row: (row["start_ns"] // 1000, json.loads(row["attributes"])["node"]))


def _assert_agree(document: Path, run: Path) -> None:
    for ours, theirs in zip(_operators(timeline.read(document)), _operators(run_metadata.read(run)), strict=True):
        assert {name: ours[name] for name in SAME} == {name: theirs[name] for name in SAME}
        assert ours["start_ns"] == theirs["start_ns"] // 1000 * 1000
        assert abs(ours["duration_ns"] - theirs["duration_ns"]) <= 1000
        expected = json.loads(theirs["attributes"])
        assert json.loads(ours["attributes"]) == {key: expected[key] for key in ("node", "inputs") if key in expected}


def test_it_agrees_with_the_run_metadata_it_was_made_of() -> None:
    _assert_agree(DOCUMENT, GOLDEN / "multiply.pb")


def test_a_timeline_of_this_tensorflow_agrees_with_its_run_metadata(
    tmp_path: Path, saved: Callable[[str], Path]
) -> None:
    metadata = runpy.run_path(str(GOLDEN / "record.py"))["train"]()
    run = tmp_path / "run.pb"
    run.write_bytes(metadata.SerializeToString())
    _assert_agree(saved(Timeline(metadata.step_stats).generate_chrome_trace_format()), run)


def test_memory_is_a_counter_for_each_allocator() -> None:
    counters = [row for row in timeline.read(DOCUMENT).to_pylist() if row["kind"] == "counter"]
    document = json.loads(DOCUMENT.read_text())
    expected = [(e["name"], e["ts"] * 1000, e["args"][e["name"]]) for e in document["traceEvents"] if e["ph"] == "C"]
    assert [(row["name"], row["start_ns"], row["value"]) for row in counters] == expected
    assert {row["thread"] for row in counters} == {"Allocators"}


def test_every_phase_is_read_or_left_out_for_a_reason() -> None:
    phases = {event["ph"] for event in json.loads(DOCUMENT.read_text())["traceEvents"]}
    assert phases <= {"X", "C", "M", *timeline.LEFT_OUT}
    assert {"X", "C", "M", "N", "O", "D"} <= phases


def test_the_table_has_the_schema_and_nests() -> None:
    table = timeline.read(DOCUMENT)
    assert table.schema.equals(EVENT_SCHEMA)
    assert assemble([table]).column("tid").to_pylist() == table.column("tid").to_pylist()


def test_work_of_an_accelerator_is_not_repeated(saved: Callable[[str], Path]) -> None:
    """Written by hand, in the form that TensorFlow's source code writes."""
    kernel = 'node_name: "conv:Conv2D" timeline_label: "k grid:1,1,1@@conv:Conv2D" all_start_micros: 5'
    devices = [f"/device:GPU:0/stream:{stream}" for stream in ("all", 7)]
    parts = [f'dev_stats {{ device: "{device}" node_stats {{ {kernel} }} }}' for device in devices]
    stats = text_format.Parse("".join(parts), step_stats_pb2.StepStats())
    (event,) = timeline.read(saved(Timeline(stats).generate_chrome_trace_format())).to_pylist()
    assert [event[name] for name in ("kind", "name", "op", "device", "stream")] == [
        "kernel",
        "Conv2D",
        "Conv",
        "cuda:0",
        7,
    ]
    assert json.loads(event["attributes"])["node"] == "conv"


def test_it_is_recognized_by_its_content(saved: Callable[[str], Path]) -> None:
    assert timeline.recognizes(DOCUMENT)
    assert timeline.recognizes(saved(json.dumps(json.loads(DOCUMENT.read_text()))))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"traceEvents": []}',
        '{"schemaVersion": 1, "traceEvents": [{"name": "Allocators"}]}',
        '{"unified_profiler": {}, "traceEvents": [{"name": "Allocators"}]}',
        '{"traceEvents": [{"ph": "M", "name": "process_name", "args": {"name": "python"}}]}',
        '[{"ph": "M", "args": {"name": "Allocators"}}]',
    ],
)
def test_other_json_is_not_recognized(saved: Callable[[str], Path], text: str) -> None:
    assert not timeline.recognizes(saved(text))


def test_kineto_directories_and_missing_files_are_not_recognized(tmp_path: Path) -> None:
    kineto = GOLDEN.parent / "kineto" / "mi250_train.json.gz"
    assert [timeline.recognizes(path) for path in (kineto, tmp_path, tmp_path / "missing")] == [False] * 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (DOCUMENT.read_text()[:5000], "truncated"),
        ('{"traceEvents": [}', "not valid JSON"),
        ("[]", "not a timeline"),
        ('{"traceEvents": [{"ph": 5}]}', "not a timeline"),
        ('{"traceEvents": [{"ph": "X", "ts": 1e300}]}', "not a timeline"),
        ('{"traceEvents": [{"ph": "M", "name": "process_name", "args": {"name": "Allocators"}}]}', "without nodes"),
    ],
)
def test_damage_is_reported(saved: Callable[[str], Path], text: str, message: str) -> None:
    with pytest.raises(TraceFormatError, match=message):
        timeline.read(saved(text))


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="cannot be read"):
        timeline.read(tmp_path / "missing.json")
