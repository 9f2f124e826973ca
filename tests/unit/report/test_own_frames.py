from __future__ import annotations

import unified_profiler as up
from unified_profiler.report.own_frames import without_own_frames
from unified_profiler.testing import TraceBuilder


def frames() -> up.Trace:
    """Make what `run` records with stacks: its frames, the script, and a hook of ours around the script's operators."""
    builder = TraceBuilder()
    for depth, name in enumerate(
        [
            "bin/unified-profiler(8): <module>",
            "typer/main.py(1126): __call__",
            "unified_profiler/launch/program.py(78): _run_file",
            "train.py(7): <module>",
            "unified_profiler_torch/steps/hooks.py(91): step",
            "torch/optim/sgd.py(12): step",
        ]
    ):
        builder.op(name, depth, 1000 - 2 * depth, kind="runtime")
    return builder.op("aten::add_", 100, 50).build()


def test_the_script_is_outermost_and_ours_are_gone() -> None:
    shown = without_own_frames(frames().events)
    assert shown.column("name").to_pylist() == ["train.py(7): <module>", "torch/optim/sgd.py(12): step", "aten::add_"]
    assert shown.column("depth").to_pylist() == [0, 1, 2]


def test_parents_are_those_that_are_left() -> None:
    shown = without_own_frames(frames().events).to_pylist()
    ids = {row["name"]: row["id"] for row in shown}
    parents = {row["name"]: row["parent_id"] for row in shown}
    assert parents["train.py(7): <module>"] is None
    assert parents["torch/optim/sgd.py(12): step"] == ids["train.py(7): <module>"]
    assert parents["aten::add_"] == ids["torch/optim/sgd.py(12): step"]


def test_self_time_of_what_is_gone_goes_to_the_frame_around_it() -> None:
    own = {row["name"]: row["self_ns"] for row in without_own_frames(frames().events).to_pylist()}
    assert own["train.py(7): <module>"] == 994 - 990
    assert sum(own.values()) == 994


def test_other_events_with_such_names_stay() -> None:
    events = TraceBuilder().op("unified_profiler/x.py(1): f", 0, 10).build().events
    assert without_own_frames(events).num_rows == 1


def test_events_without_frames_are_returned_as_they_are(trace: up.Trace) -> None:
    assert without_own_frames(trace.events) is trace.events
