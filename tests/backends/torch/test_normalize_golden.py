"""Traces of machines with accelerators, checked against a plain reading of the same file."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from unified_profiler.model.assembly import assemble
from unified_profiler.spi import NativeCapture
from unified_profiler_torch.read.args_layouts import LEFT_OUT
from unified_profiler_torch.read.normalizer import KinetoNormalizer

GOLDEN = Path(__file__).parents[2] / "golden" / "kineto"
FILES = sorted(file.name for file in GOLDEN.glob("*.json.gz"))
WINDOW_MARKS = {"Iteration Start: PyTorch Profiler", "Record Window End"}
KINDS = {
    "cpu_op": {"op", "collective"},
    "user_annotation": {"region", "collective", "op", "step"},
    "cuda_runtime": {"runtime"},
    "cuda_sync": {"runtime"},
    "kernel": {"kernel", "collective"},
    "gpu_memcpy": {"copy"},
    "gpu_memset": {"copy"},
    "gpu_user_annotation": {"region"},
    None: {"runtime"},
}


def document(name: str, **options: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gzip.decompress((GOLDEN / name).read_bytes()), **options)
    return document


def kept(name: str, **options: Any) -> list[dict[str, Any]]:
    entries = document(name, **options)["traceEvents"]
    events = [e for e in entries if e["ph"] in {"X", "i"} and e.get("cat") != "Trace"]
    return [e for e in events if e["name"] not in WINDOW_MARKS]


def normalized(name: str) -> pa.Table:
    return KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(GOLDEN / name,)))


def of_category(name: str, category: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    pairs = zip(kept(name), normalized(name).to_pylist(), strict=True)
    return [(entry, event) for entry, event in pairs if entry.get("cat") == category]


@pytest.mark.parametrize("name", FILES)
def test_it_is_recognized(name: str) -> None:
    assert KinetoNormalizer().recognizes(GOLDEN / name)


@pytest.mark.parametrize("name", FILES)
def test_every_event_is_there_with_its_name_and_duration(name: str) -> None:
    expected = [(e["name"], int(e.get("dur", 0) * 1000)) for e in kept(name, parse_float=Decimal)]
    table = normalized(name)
    events = zip(table.column("name").to_pylist(), table.column("duration_ns").to_pylist(), strict=True)
    assert list(events) == expected


@pytest.mark.parametrize("name", FILES)
def test_every_category_becomes_its_kinds(name: str) -> None:
    kinds_by_category = defaultdict(set)
    for entry, event in zip(kept(name), normalized(name).to_pylist(), strict=True):
        kinds_by_category[entry.get("cat")].add(event["kind"])
    assert all(kinds <= KINDS[category] for category, kinds in kinds_by_category.items())


@pytest.mark.parametrize("name", FILES)
def test_times_are_nanoseconds_since_the_epoch(name: str) -> None:
    base = document(name).get("baseTimeNanoseconds", 0)
    expected = [base + int(e["ts"] * 1000) for e in kept(name, parse_float=Decimal)]
    assert normalized(name).column("start_ns").to_pylist() == expected


@pytest.mark.parametrize("name", FILES)
def test_no_argument_is_lost(name: str) -> None:
    columns = {"correlation", "stream", "device", "bytes", "Sequence number", "Input Dims", "Input type"}
    for entry, event in zip(kept(name), normalized(name).to_pylist(), strict=True):
        attributes = json.loads(event["attributes"] or "{}")
        args = entry.get("args", {})
        in_columns = {key for key in columns & args.keys() if key not in attributes}
        assert attributes.keys() == args.keys() - in_columns - LEFT_OUT
        assert all(attributes[key] == args[key] for key in attributes)


@pytest.mark.parametrize("name", FILES)
def test_every_launch_arrow_is_a_correlation(name: str) -> None:
    arrows = {e["id"] for e in document(name)["traceEvents"] if e.get("cat") == "ac2g"}
    assert arrows <= set(normalized(name).column("correlation_id").to_pylist())


@pytest.mark.parametrize("name", FILES)
def test_every_forward_backward_arrow_is_a_sequence_number(name: str) -> None:
    at = defaultdict(set)
    for entry, event in zip(kept(name), normalized(name).to_pylist(), strict=True):
        at[entry["pid"], entry["tid"], entry["ts"]].add(event["sequence_id"])
    ends = defaultdict(list)
    for entry in document(name)["traceEvents"]:
        if entry.get("cat") == "fwdbwd":
            ends[entry["id"]].append(at[entry["pid"], entry["tid"], entry["ts"]] - {None})
    assert all(first & second for first, second in ends.values())


@pytest.mark.parametrize(("name", "rank"), [("nccl_rank", 0), ("cpu_only_rank34", 34), ("alexnet_cuda", 0)])
def test_the_rank_is_that_of_the_job(name: str, rank: int) -> None:
    assert set(normalized(f"{name}.json.gz").column("rank").to_pylist()) == {rank}


def test_a_trace_without_a_job_has_no_rank() -> None:
    assert set(normalized("mi250_train.json.gz").column("rank").to_pylist()) == {None}


@pytest.mark.parametrize("category", ["kernel", "gpu_memcpy", "gpu_memset"])
@pytest.mark.parametrize("name", ["alexnet_cuda.json.gz", "nccl_rank.json.gz", "mi250_train.json.gz"])
def test_work_on_a_device_has_device_stream_and_correlation(name: str, category: str) -> None:
    for entry, event in of_category(name, category):
        args = entry["args"]
        assert event["device"] == f"cuda:{args['device']}"
        assert (event["stream"], event["correlation_id"]) == (args["stream"], args["correlation"])
        assert (event["layer"], event["bytes"]) == ("runtime", args.get("bytes"))


def test_annotations_on_a_device_have_the_device_of_their_lane() -> None:
    pairs = of_category("mi250_train.json.gz", "gpu_user_annotation")
    assert [(event["device"], event["stream"]) for _, event in pairs] == [("cuda:2", 0), ("cuda:2", 0)]


@pytest.mark.parametrize("name", ["mi250_train.json.gz", "nccl_rank.json.gz"])
def test_annotations_on_a_device_are_spans_of_the_runtime_not_regions_of_the_user(name: str) -> None:
    pairs = of_category(name, "gpu_user_annotation")
    assert {(event["layer"], event["kind"]) for _, event in pairs} == {("runtime", "region")}
    user = {event["name"] for event in normalized(name).to_pylist() if event["layer"] == "application"}
    assert user <= {entry["name"] for entry in kept(name) if entry["cat"] == "user_annotation"}


def test_device_events_have_the_step_of_their_launch_or_of_their_window() -> None:
    events = assemble([normalized("nccl_rank.json.gz")]).to_pylist()
    launch = {e["correlation_id"]: e["step"] for e in events if e["kind"] == "runtime" and e["device"] == "cpu:0"}
    windows: dict[int, list[int]] = defaultdict(list)
    for event in (e for e in events if e["kind"] in {"kernel", "copy", "collective"} and e["device"] == "cuda:0"):
        assert event["step"] == launch[event["correlation_id"]]
        windows[event["step"]] += [event["start_ns"], event["start_ns"] + event["duration_ns"]]
    for event in (e for e in events if e["kind"] == "region" and e["device"] == "cuda:0"):
        end = event["start_ns"] + event["duration_ns"]
        inside = [step for step, ends in windows.items() if min(ends) <= event["start_ns"] and end <= max(ends)]
        assert event["step"] == (inside[0] if len(inside) == 1 else None)


def test_nccl_kernels_and_calls_are_collectives() -> None:
    table = normalized("nccl_rank.json.gz").to_pylist()
    counts = Counter((event["device"], event["layer"]) for event in table if event["kind"] == "collective")
    assert counts["cuda:0", "runtime"] == 21
    assert counts["cpu:0", "framework"] > 21
    assert {e["op"] for e in table if e["name"] == "nccl:all_reduce" and e["kind"] == "collective"} == {"x:AllReduce"}


def test_gloo_collectives_keep_the_shape_of_their_message() -> None:
    gloo = [event for event in normalized("cpu_only_rank34.json.gz").to_pylist() if event["name"] == "gloo:all_reduce"]
    assert {(event["kind"], event["input_shapes"]) for event in gloo} >= {("collective", "[[321271]]")}


def test_kernels_carry_what_the_operator_that_launched_them_is() -> None:
    table = assemble([normalized("mi250_train.json.gz")]).to_pylist()
    calls = {event["correlation_id"]: event for event in table if event["kind"] == "runtime"}
    for event in table:
        if event["kind"] == "kernel":
            operator = table[calls[event["correlation_id"]]["parent_id"]]
            assert (event["op"], event["origin"], event["direction"]) == (
                operator["op"],
                operator["origin"],
                operator["direction"],
            )


@pytest.mark.parametrize("name", ["mi250_train.json.gz", "nccl_rank.json.gz"])
def test_calls_of_the_runtime_are_no_operators(name: str) -> None:
    calls = of_category(name, "cuda_runtime")
    assert {(event["op"], event["origin"]) for _, event in calls} == {(None, None)}
    assert {event["direction"] for _, event in calls} > {"backward"}


def test_backward_on_another_thread_is_backward() -> None:
    table = normalized("nccl_rank.json.gz").to_pylist()
    autograd = [
        e for e in table if e["thread"] and "pt_autograd" in e["thread"] and e["name"] == "aten::convolution_backward"
    ]
    assert {(event["direction"], event["origin"]) for event in autograd} == {("backward", "Conv")}


def test_a_step_of_the_trace_is_a_step() -> None:
    steps = [event for event in normalized("mi250_train.json.gz").to_pylist() if event["kind"] == "step"]
    assert [(event["name"], event["step"]) for event in steps] == [("ProfilerStep#1", 1), ("ProfilerStep#2", 2)]


def test_threads_have_their_names() -> None:
    assert "thread 598009 (pt_autograd_0)" in normalized("mi250_train.json.gz").column("thread").to_pylist()


def test_operators_stay_on_their_threads_when_nested() -> None:
    for name in FILES:
        before, after = normalized(name), assemble([normalized(name)])
        moved = [
            kind
            for kind, old, new in zip(
                before.column("kind").to_pylist(),
                before.column("tid").to_pylist(),
                after.column("tid").to_pylist(),
                strict=True,
            )
            if old != new
        ]
        assert set(moved) <= {"runtime"}  # waiting for a stream overlaps with its work


def test_everything_but_the_events_is_metadata() -> None:
    native = json.loads(normalized("nccl_rank.json.gz").schema.metadata[b"native"])
    assert native["distributedInfo"]["world_size"] == 2
    assert native["deviceProperties"][0]["name"] == "NVIDIA A100-PG509-200"
    assert native["processes"]["2910249"]["name"] == "python3.10"
