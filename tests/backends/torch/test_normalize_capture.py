"""What real captures of this machine become."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import nn

import unified_profiler as up
from unified_profiler.model.schema import EVENT_SCHEMA
from unified_profiler_torch.read.normalizer import KinetoNormalizer

Events = Callable[..., pa.Table]

HOSTILE = {
    "plain": "plain",
    'say "hi"': 'say "hi"',
    '", "pid": 3': '", "pid": 3',
    "C:\\new": "C:/new",  # Kineto itself turns backslashes round, drops newlines and gives up on what is no ASCII
    "two\nlines": "twolines",
    "emoji 😀": "unknown",
    "control \x01": "unknown",
    "</script>": "</script>",
}


def named(table: pa.Table, name: str) -> list[dict[str, Any]]:
    return [event for event in table.to_pylist() if event["name"] == name]


def test_the_table_has_the_schema(events: Events) -> None:
    assert events(lambda: torch.ones(3)).schema.equals(EVENT_SCHEMA)


def test_operators_are_of_the_framework_and_on_the_processor(events: Events) -> None:
    event = named(events(lambda: torch.ones(3)), "aten::ones")[0]
    assert (event["layer"], event["kind"], event["framework"]) == ("framework", "op", "torch")
    assert (event["device"], event["tid"]) == ("cpu:0", threading.get_native_id())


def test_times_are_those_of_the_system_clock(events: Events) -> None:
    before = time.time_ns()
    event = named(events(lambda: torch.ones(3)), "aten::ones")[0]
    assert before < event["start_ns"] < event["start_ns"] + event["duration_ns"] < time.time_ns()


def test_regions_of_the_user_enclose_their_operators(events: Events) -> None:
    def work() -> None:
        with torch.profiler.record_function("mine"):
            torch.ones(3)

    table = events(work)
    region = named(table, "mine")[0]
    assert (region["layer"], region["kind"]) == ("application", "region")
    assert named(table, "aten::ones")[0]["parent_id"] == region["id"]


def test_regions_enclose_their_operators_with_stacks_too(events: Events) -> None:
    def work() -> None:
        with torch.profiler.record_function("mine"):
            torch.ones(3)

    table = events(work, with_stack=True).to_pylist()
    above, event = [], next(event for event in table if event["name"] == "aten::ones")
    while event["parent_id"] is not None:
        event = table[event["parent_id"]]
        above.append(event["name"])
    assert "mine" in above


@pytest.mark.parametrize("name", HOSTILE)
def test_names_come_through_as_kineto_wrote_them(name: str, events: Events) -> None:
    def work() -> None:
        with torch.profiler.record_function(name):
            torch.ones(3)

    assert len(named(events(work), HOSTILE[name])) == 1


def test_shapes_and_types_are_compact_json(events: Events) -> None:
    event = named(events(lambda: torch.mm(torch.ones(2, 3), torch.ones(3, 4)), record_shapes=True), "aten::mm")[0]
    assert event["input_shapes"] == "[[2,3],[3,4]]"
    assert event["input_types"] == '["float","float"]'
    assert json.loads(event["attributes"])["Input Strides"] == [[3, 1], [4, 1]]


def test_equal_shapes_are_stored_once(events: Events) -> None:
    table = events(lambda: [torch.mm(torch.ones(2, 3), torch.ones(3, 4)) for _ in range(50)], record_shapes=True)
    shapes = table.column("input_shapes").combine_chunks()
    assert shapes.dictionary.to_pylist().count("[[2,3],[3,4]]") == 1


def test_flops_are_counted_only_when_asked_for(events: Events) -> None:
    def work() -> None:
        torch.mm(torch.ones(2, 3), torch.ones(3, 4))

    assert named(events(work, record_shapes=True), "aten::mm")[0]["flops"] is None
    assert named(events(work, with_flops=True), "aten::mm")[0]["flops"] == 2 * 2 * 3 * 4


def test_memory_events_belong_to_the_operator_that_allocates(events: Events) -> None:
    table = events(lambda: torch.empty(1000), profile_memory=True)
    operator = named(table, "aten::empty")[0]
    memory = [event for event in named(table, "[memory]") if event["parent_id"] == operator["id"]]
    assert [(event["kind"], event["bytes"], event["device"]) for event in memory] == [("memory", 4000, "cpu:0")]
    assert memory[0]["value"] >= 4000
    assert "Addr" in json.loads(memory[0]["attributes"])


def test_stacks_name_the_frames_that_enclose_an_operator(events: Events) -> None:
    def work_of_this_test() -> None:
        torch.ones(3)

    event = named(events(work_of_this_test, with_stack=True), "aten::ones")[0]
    frames = event["stack"].split(";")
    assert any(frame.endswith("work_of_this_test") for frame in frames)
    assert frames[-1].startswith("<built-in method ones")


def test_python_frames_are_no_operators(events: Events) -> None:
    table = events(lambda: torch.ones(3), with_stack=True).to_pylist()
    frames = [event for event in table if event["name"].startswith("<built-in")]
    assert {(event["layer"], event["kind"], event["direction"]) for event in frames} == {("runtime", "runtime", None)}


def test_modules_are_distinguished_from_other_frames(events: Events) -> None:
    model = nn.Sequential(nn.Linear(3, 3))
    table = events(lambda: model(torch.ones(2, 3)), with_stack=True)
    assert {event["kind"] for event in named(table, "nn.Module: Linear_0")} == {"module"}
    assert named(table, "aten::linear")[0]["module"] == "Sequential_0.Linear_0"


def test_every_thread_has_its_own_tree(events: Events) -> None:
    tids = []

    def other() -> None:
        tids.append(threading.get_native_id())
        torch.zeros(3)

    def work() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        torch.ones(3)
        thread.join()

    config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    table = events(work, native_options={"experimental_config": config})
    assert {event["tid"] for event in named(table, "aten::zeros")} == set(tids)
    assert {event["tid"] for event in named(table, "aten::ones")} == {threading.get_native_id()}


def test_everything_in_backward_has_the_origin_of_its_forward(events: Events, train: Callable[[], None]) -> None:
    table = events(train).to_pylist()
    gradients = {e["name"]: (e["op"], e["origin"], e["direction"]) for e in table if e["direction"] == "backward"}
    assert gradients["aten::convolution_backward"] == ("Conv", "Conv", "backward")
    assert gradients["aten::native_batch_norm_backward"][1] == "BatchNormalization"
    assert gradients["LogSoftmaxBackward0"][1] == "SoftmaxCrossEntropyLoss"
    assert gradients["AddmmBackward0"][1] == "Gemm"


def test_the_optimizer_is_the_origin_of_its_operators(events: Events, train: Callable[[], None]) -> None:
    table = events(train).to_pylist()
    update = {(event["origin"], event["direction"]) for event in table if event["name"] == "aten::addcdiv_"}
    assert update == {("Adam", "update")}
    steps = named(events(train), "Optimizer.step#Adam.step")
    assert [(event["kind"], event["op"]) for event in steps] == [("region", "Adam")] * 3


def test_composites_are_the_origin_of_their_parts(events: Events, train: Callable[[], None]) -> None:
    table = events(train).to_pylist()
    assert {e["origin"] for e in table if e["name"] == "aten::nll_loss_forward"} == {"SoftmaxCrossEntropyLoss"}
    assert {e["op"] for e in table if e["name"] == "aten::nll_loss_forward"} == {"NegativeLogLikelihoodLoss"}


def test_every_operator_of_a_training_has_a_name_and_an_origin(events: Events, train: Callable[[], None]) -> None:
    operators = [event for event in events(train).to_pylist() if event["kind"] == "op"]
    assert {event["name"] for event in operators if event["op"] is None or event["origin"] is None} == set()


def test_gloo_collectives_have_kind_and_rank(record: Any) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        capture = record(lambda: dist.all_reduce(torch.ones(5)), record_shapes=True)
    finally:
        dist.destroy_process_group()
    table = KinetoNormalizer().normalize(capture)
    calls = {e["name"]: (e["kind"], e["op"]) for e in table.to_pylist() if e["kind"] == "collective"}
    assert calls["c10d::allreduce_"] == ("collective", "x:AllReduce")
    assert calls["gloo:all_reduce"] == ("collective", "x:AllReduce")
    assert set(table.column("rank").to_pylist()) == {0}
    assert json.loads(table.schema.metadata[b"native"])["distributedInfo"]["backend"] == "gloo"


def test_normalizing_needs_no_torch(record: Any) -> None:
    (path,) = record(lambda: torch.ones(3)).files
    code = (
        "import sys; from pathlib import Path\n"
        "from unified_profiler.spi import NativeCapture\n"
        "from unified_profiler_torch.read.normalizer import KinetoNormalizer\n"
        "table = KinetoNormalizer().normalize(NativeCapture(backend='torch', files=(Path(sys.argv[1]),)))\n"
        "assert len(table) and 'torch' not in sys.modules"
    )
    root = Path(__file__).parents[3] / "backends"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, env={"PYTHONPATH": str(root)})


def test_the_total_of_a_cycle_does_not_hold_what_was_freed_since_the_cycle_before() -> None:
    kept: list[torch.Tensor] = []
    with up.Profiler(schedule=up.schedule(wait=1, warmup=0, active=1), backend="torch", profile_memory=True) as prof:
        for _ in range(4):
            kept.append(torch.ones(1000, 1000))
            prof.step()
            kept.clear()
    for trace in prof.traces:
        memory = [event for event in trace.events.to_pylist() if event["kind"] == "memory"]
        sizes = [event["bytes"] for event in memory]
        assert 4_000_000 in sizes
        assert [event["value"] for event in memory] == np.cumsum(sizes).tolist()
