from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from unified_profiler.export import ChromeExporter, write
from unified_profiler.model.nesting import nest
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.run import Run
from unified_profiler.model.schema import empty_table, event_table
from unified_profiler.model.trace import Trace


def refuse(constant: str) -> None:
    message = f"{constant} is not JSON"
    raise ValueError(message)


def document(trace: Trace | Run, folder: Path) -> dict[str, Any]:
    """Write and parse strictly: UTF-8, no NaN."""
    text = write(trace, folder / "t.json").read_bytes().decode("utf-8", "strict")
    found: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return found


def events(trace: Trace | Run, folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document(trace, folder)["traceEvents"]
    return found


def named(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(event for event in found if event["name"] == name and event["ph"] != "M")


def small(**columns: Any) -> Trace:
    rows = len(columns["start_ns"])
    given = {"name": "op", "layer": "framework", "kind": "op", "duration_ns": 1, "pid": 1, "tid": 1} | columns
    return Trace(nest(event_table(given, rows=rows)), TraceInfo(event_count=rows))


def test_times_are_microseconds_with_three_decimals_from_the_base(trace: Trace, tmp_path: Path) -> None:
    text = write(trace, tmp_path / "t.json").read_text()
    assert '"name":"aten::mm","pid":77,"tid":77,"ts":1.001,"dur":4.000,' in text
    assert json.loads(text)["baseTimeNanoseconds"] == trace.info.start_ns


def test_no_time_is_negative_and_events_come_by_time(trace: Trace, tmp_path: Path) -> None:
    times = [event["ts"] for event in events(trace, tmp_path) if event["ph"] != "M"]
    assert times == sorted(times)
    assert times[0] == 0


def test_an_enclosing_slice_comes_before_what_it_encloses(tmp_path: Path) -> None:
    trace = small(name=["inner", "outer"], start_ns=[5, 5], duration_ns=[1, 9])
    assert [event["name"] for event in events(trace, tmp_path) if event["ph"] == "X"] == ["outer", "inner"]


def test_spans_instants_and_counters_have_their_phases(trace: Trace, tmp_path: Path) -> None:
    found = events(trace, tmp_path)
    assert named(found, "aten::mm")["ph"] == "X"
    assert named(found, "[memory]")["ph"] == "i"
    assert named(found, "cpu_percent")["ph"] == "C"


def test_a_counter_has_no_argument_but_its_value(trace: Trace, tmp_path: Path) -> None:
    assert named(events(trace, tmp_path), "cpu_percent")["args"] == {"value": 0.1}


def test_columns_are_arguments_and_json_columns_are_json(trace: Trace, tmp_path: Path) -> None:
    args = named(events(trace, tmp_path), "aten::mm")["args"]
    assert args == {
        "id": 1,
        "parent_id": 0,
        "op": "MatMul",
        "direction": "forward",
        "self_ns": 3000,
        "depth": 1,
        "step": 3,
        "device": "cpu:0",
        "framework": "torch",
        "sequence_id": 11,
        "input_shapes": [[2, 3], [3, 4]],
        "attributes": {"a": [1, {"b": None}]},
    }


def test_json_columns_that_hold_no_valid_json_become_strings(trace: Trace, tmp_path: Path) -> None:
    found = events(trace, tmp_path)
    assert named(found, "gemm")["args"]["attributes"] == '{"x": NaN}'
    assert named(found, "MmBackward0")["args"]["input_shapes"] == "no json"
    assert named(found, "MmBackward0")["args"]["attributes"] == '"text"'


def test_arrows_lead_from_launch_to_kernel_and_from_forward_to_backward(trace: Trace, tmp_path: Path) -> None:
    found = events(trace, tmp_path)
    ends = [(event["ph"], event["name"], event["tid"], event["ts"]) for event in found if event["ph"] in {"s", "f"}]
    assert ends == [
        ("s", "backward", 77, 1.001),
        ("s", "launch", 77, 2.002),
        ("f", "backward", 78, 8.0),
        ("f", "launch", 7, 9.0),
    ]


def test_both_ends_of_an_arrow_have_the_same_id(trace: Trace, tmp_path: Path) -> None:
    found = [event for event in events(trace, tmp_path) if event["ph"] in {"s", "f"}]
    ids = {name: {event["id"] for event in found if event["name"] == name} for name in ("launch", "backward")}
    assert {len(numbers) for numbers in ids.values()} == {1}
    assert ids["launch"] != ids["backward"]


def test_arrows_never_lead_back_in_time(tmp_path: Path) -> None:
    trace = small(kind=["kernel", "runtime"], start_ns=[10, 20], correlation_id=[1, 1], tid=[7, 1])
    assert not [event for event in events(trace, tmp_path) if event["ph"] in {"s", "f"}]


def test_a_launch_of_several_kernels_has_an_arrow_to_each(tmp_path: Path) -> None:
    trace = small(kind=["runtime", "kernel", "kernel"], start_ns=[1, 20, 40], correlation_id=9, tid=[1, 7, 7])
    found = events(trace, tmp_path)
    starts = [event["id"] for event in found if event["ph"] == "s"]
    assert starts == [event["id"] for event in found if event["ph"] == "f"]
    assert len(set(starts)) == 2


def test_arrows_can_be_left_out(trace: Trace, tmp_path: Path) -> None:
    ChromeExporter(arrows=False).write([trace], tmp_path / "t.json")
    assert '"ph":"s"' not in (tmp_path / "t.json").read_text()


def test_processes_and_threads_have_names(trace: Trace, tmp_path: Path) -> None:
    found = [event for event in events(trace, tmp_path) if event["ph"] == "M" and event["name"].endswith("_name")]
    assert [(event["pid"], event.get("tid"), event["args"]["name"]) for event in found] == [
        (77, None, "rank 2: python 77"),
        (1, None, "rank 2: cuda:0"),
        (77, 77, "main thread"),
        (77, 78, "autograd"),
        (1, 7, "stream 7"),
    ]


@pytest.mark.parametrize("pid", [0, -1, 2**40, None])
def test_process_ids_no_viewer_can_hold_are_replaced(pid: int | None, tmp_path: Path) -> None:
    trace = small(start_ns=[1], pid=[pid], tid=[pid])
    event = next(event for event in events(trace, tmp_path) if event["ph"] == "X")
    assert (event["pid"], event["tid"]) == (1, 1)


def test_ranks_with_the_same_process_id_are_kept_apart(trace: Trace, tmp_path: Path) -> None:
    other = small(start_ns=[trace.info.start_ns], pid=77, tid=77, rank=5)
    found = events(Run(traces=(trace, other)), tmp_path)
    lanes = {(event["pid"], event["tid"]) for event in found if event["name"] in {"op", "aten::mm"}}
    assert len({pid for pid, _ in lanes}) == len({tid for _, tid in lanes}) == 2


def test_cycles_of_a_rank_share_their_threads(tmp_path: Path) -> None:
    cycles = [small(start_ns=[start], rank=0, cycle=cycle) for cycle, start in enumerate([10, 20])]
    lanes = {(e["pid"], e["tid"]) for e in events(Run(traces=cycles), tmp_path) if e["ph"] == "X"}
    assert len(lanes) == 1


def test_events_that_overlap_partly_go_to_different_threads(tmp_path: Path) -> None:
    table = small(start_ns=[0, 5], duration_ns=[10, 10]).events
    joined = table.set_column(table.schema.get_field_index("tid"), table.schema.field("tid"), [[1, 1]])
    found = events(Trace(joined, TraceInfo(event_count=2)), tmp_path)
    assert len({event["tid"] for event in found if event["ph"] == "X"}) == 2


def test_a_trace_without_events_is_valid(tmp_path: Path) -> None:
    assert events(Trace(empty_table(), TraceInfo()), tmp_path) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), None])
def test_values_json_cannot_hold_are_not_drawn(value: float | None, tmp_path: Path) -> None:
    found = events(small(kind="counter", start_ns=[1], value=[value]), tmp_path)
    assert next(event for event in found if event["ph"] == "C")["args"] == {}


def test_counters_of_different_devices_are_kept_apart(tmp_path: Path) -> None:
    found = events(small(kind="counter", start_ns=[1, 1], value=1.0, device=["cuda:0", "cuda:1"]), tmp_path)
    assert {event["id"] for event in found if event["ph"] == "C"} == {"cuda:0", "cuda:1"}


def test_gzip_holds_the_same_text(trace: Trace, tmp_path: Path) -> None:
    plain, packed = write(trace, tmp_path / "t.json"), write(trace, tmp_path / "t.json.gz")
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()


def test_the_same_trace_gives_the_same_bytes(trace: Trace, tmp_path: Path) -> None:
    first, second = write(trace, tmp_path / "a.json.gz"), write(trace, tmp_path / "b.json.gz")
    assert first.read_bytes() == second.read_bytes()


def test_more_events_than_fit_a_block_are_all_written(tmp_path: Path) -> None:
    rows = (1 << 16) + 3
    trace = small(start_ns=list(range(rows)))
    assert sum(event["ph"] == "X" for event in events(trace, tmp_path)) == rows
