from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import unified_profiler as up
from unified_profiler.errors import ConfigurationError
from unified_profiler.export import ChromeExporter, Overlay
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import empty_table
from unified_profiler.model.trace import Trace

BASE = 1_790_857_026_123_456_789

PATH = {
    "rank": [2, 2, 2, 2],
    "step": [3, 3, 3, 4],
    "start_ns": [BASE + 1, BASE + 2_002, BASE + 9_000, BASE + 12_000],
    "end_ns": [BASE + 2_002, BASE + 9_000, BASE + 11_500, BASE + 12_003],
    "lane": ["main", "launch", "stream 7", "main"],
    "kind": ["operator", "wait", None, "operator"],
    "name": ["aten::mm", "launch delay", "gemm", "last"],
}


def written(trace: Trace, folder: Path, *overlays: Overlay) -> list[dict[str, Any]]:
    ChromeExporter(overlays=overlays).write([trace], folder / "t.json")
    events: list[dict[str, Any]] = json.loads((folder / "t.json").read_text())["traceEvents"]
    return events


def threads(events: list[dict[str, Any]], process: str) -> dict[int, str]:
    """The names of the threads of a process, by number."""
    (pid,) = {event["pid"] for event in events if event["name"] == "process_name" and event["args"]["name"] == process}
    names = [event for event in events if event["ph"] == "M" and event["name"] == "thread_name" and event["pid"] == pid]
    return {event["tid"]: event["args"]["name"] for event in names}


def slices(events: list[dict[str, Any]]) -> list[tuple[int, str, float, float]]:
    """Thread, name, start and end of each span: an end belongs to the latest begin on its thread."""
    stacks: dict[int, list[dict[str, Any]]] = {}
    closed = []
    for event in events:
        if event["ph"] == "B":
            stacks.setdefault(event["tid"], []).append(event)
        elif event["ph"] == "E":
            begin = stacks[event["tid"]].pop()
            closed.append((event["tid"], begin["name"], begin["ts"], event["ts"]))
    assert not any(stacks.values())
    return sorted(closed, key=lambda each: each[2])


def test_spans_are_on_a_process_of_their_own_with_a_thread_for_each_lane(trace: Trace, tmp_path: Path) -> None:
    events = written(trace, tmp_path, Overlay(pa.table(PATH)))
    names = threads(events, "critical path")
    assert list(names.values()) == ["main", "launch", "stream 7"]
    assert [(names[tid], name, start, end) for tid, name, start, end in slices(events)] == [
        ("main", "aten::mm", 0.001, 2.002),
        ("launch", "launch delay", 2.002, 9.0),
        ("stream 7", "gemm", 9.0, 11.5),
        ("main", "last", 12.0, 12.003),
    ]


def test_threads_and_processes_of_events_keep_their_numbers(trace: Trace, tmp_path: Path) -> None:
    plain = written(trace, tmp_path)
    events = written(trace, tmp_path, Overlay(pa.table(PATH)), Overlay(pa.table(PATH), name="other"))
    assert [event for event in events if event in plain] == plain
    added = [event for event in events if event not in plain]
    assert not {event["tid"] for event in added if "tid" in event} & {event.get("tid") for event in plain}
    assert not {event["pid"] for event in added} & {event["pid"] for event in plain}
    assert len({event["pid"] for event in added}) == 2


def test_arrows_lead_from_each_span_to_the_next_of_its_step(trace: Trace, tmp_path: Path) -> None:
    events = written(trace, tmp_path, Overlay(pa.table(PATH)))
    ends = [(e["ph"], e["id"], e["ts"]) for e in events if e.get("cat") == "overlay"]
    assert ends == [("s", 1, 0.001), ("f", 1, 2.002), ("s", 2, 2.002), ("f", 2, 9.0)]


def test_other_columns_are_shown_with_a_span_unless_they_are_null(trace: Trace, tmp_path: Path) -> None:
    events = written(trace, tmp_path, Overlay(pa.table(PATH)))
    args = {event["name"]: event["args"] for event in events if event["ph"] == "B"}
    assert args["launch delay"] == {"rank": 2, "step": 3, "kind": "wait"}
    assert args["gemm"] == {"rank": 2, "step": 3}


def test_ranks_have_threads_of_their_own(trace: Trace, tmp_path: Path) -> None:
    spans = pa.table({**PATH, "rank": [0, 1, 1, 0]})
    names = threads(written(trace, tmp_path, Overlay(spans)), "critical path")
    assert list(names.values()) == ["rank 0: main", "rank 1: launch", "rank 1: stream 7"]


def test_spans_that_overlap_partly_are_on_different_threads(trace: Trace, tmp_path: Path) -> None:
    spans = pa.table(
        {
            "name": ["a", "b", "inside a"],
            "lane": ["main"] * 3,
            "start_ns": [BASE, BASE + 500, BASE + 100],
            "end_ns": [BASE + 1000, BASE + 1500, BASE + 200],
        }
    )
    found = slices(written(trace, tmp_path, Overlay(spans)))
    assert [(name, start, end) for _, name, start, end in found] == [
        ("a", 0.0, 1.0),
        ("inside a", 0.1, 0.2),
        ("b", 0.5, 1.5),
    ]
    assert [tid == found[0][0] for tid, *_ in found] == [True, True, False]


def test_adjacent_and_empty_spans_end_before_the_next_begins(trace: Trace, tmp_path: Path) -> None:
    times = [BASE, BASE + 10, BASE + 10, BASE + 20]
    spans = pa.table({"name": ["a", "empty", "b"], "lane": ["m"] * 3, "start_ns": times[:3], "end_ns": times[1:]})
    assert {(name, start, end) for _, name, start, end in slices(written(trace, tmp_path, Overlay(spans)))} == {
        ("a", 0.0, 0.01),
        ("empty", 0.01, 0.01),
        ("b", 0.01, 0.02),
    }


def test_a_trace_is_read_without_the_overlays_of_its_file(trace: Trace, tmp_path: Path) -> None:
    written(trace, tmp_path, Overlay(pa.table(PATH)))
    (again,) = up.read(tmp_path / "t.json").traces
    assert again.events.to_pylist() == trace.events.to_pylist()


def test_a_span_before_the_first_event_starts_the_time_of_the_file(trace: Trace, tmp_path: Path) -> None:
    spans = pa.table({"name": ["early"], "lane": ["m"], "start_ns": [BASE - 5_000], "end_ns": [BASE]})
    events = written(trace, tmp_path, Overlay(spans))
    assert slices(events)[0][2:] == (0.0, 5.0)
    assert min(event["ts"] for event in events if event["ph"] == "X") == 5.0


def test_an_overlay_of_a_trace_without_events_is_shown(tmp_path: Path) -> None:
    events = written(Trace(empty_table(), TraceInfo()), tmp_path, Overlay(pa.table(PATH)))
    assert len(slices(events)) == 4


def test_an_overlay_without_spans_adds_nothing(trace: Trace, tmp_path: Path) -> None:
    assert written(trace, tmp_path, Overlay(pa.table(PATH).slice(0, 0))) == written(trace, tmp_path)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"name": ["a"], "start_ns": [1]}, "lacks lane, end_ns"),
        (
            {"name": ["a"], "lane": ["m"], "start_ns": pa.array([None], pa.int64()), "end_ns": [1]},
            "empty cells in start",
        ),
    ],
)
def test_a_table_that_cannot_be_shown_is_refused(columns: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Overlay(pa.table(columns))
