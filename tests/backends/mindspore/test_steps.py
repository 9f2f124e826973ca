"""Steps hold exactly the kernels that they queued, in both modes, although PyNative runs them later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import mindspore as ms
import numpy as np
import pyarrow as pa
import pytest
from mindspore import ops

import unified_profiler as up
from unified_profiler.model.trace import Trace

Train = Callable[[], ms.Tensor]


def ops_of(trace: Trace) -> pa.Table:
    return trace.events.filter(pa.compute.equal(trace.events.column("kind"), "op"))


def counts_by_step(trace: Trace) -> dict[int | None, int]:
    return dict(Counter(ops_of(trace).column("step").to_pylist()))


def test_a_schedule_is_followed_exactly(step: Train) -> None:
    with up.Profiler(
        schedule=up.schedule(wait=1, warmup=1, active=2, repeat=2), backend="mindspore", strict=True
    ) as prof:
        for _ in range(9):
            step()  # nobody waits for its kernels
            prof.step()
    found = [counts_by_step(trace) for trace in prof.traces]
    assert [set(counts) for counts in found] == [{2, 3}, {6, 7}]
    assert len({count for counts in found for count in counts.values()}) == 1


def test_every_step_holds_its_own_kernels_however_late_they_run(multiply: Train) -> None:
    with up.Profiler(backend="mindspore", strict=True) as prof:
        for number in range(5):
            for _ in range(4 * number):
                multiply()
            prof.step()
    assert counts_by_step(prof.traces[0]) == {1: 4, 2: 8, 3: 12, 4: 16}


def test_kernels_lie_within_their_step(multiply: Train) -> None:
    with up.Profiler(backend="mindspore", strict=True) as prof:
        for _ in range(3):
            for _ in range(8):
                multiply()
            prof.step()
    rows = prof.traces[0].events.select(["kind", "step", "start_ns", "duration_ns"]).to_pylist()
    steps = {row["step"]: row for row in rows if row["kind"] == "step"}
    for row in (row for row in rows if row["kind"] != "counter"):
        around = steps[row["step"]]
        assert around["start_ns"] <= row["start_ns"]
        assert row["start_ns"] + row["duration_ns"] <= around["start_ns"] + around["duration_ns"]


def test_the_last_step_without_a_call_of_step_holds_its_kernels(multiply: Train) -> None:
    with up.Profiler(backend="mindspore", strict=True) as prof:
        for _ in range(8):
            multiply()
    assert counts_by_step(prof.traces[0]) == {0: 8}


def test_kernels_are_in_a_lane_of_their_own(step: Train) -> None:
    with up.Profiler(backend="mindspore", strict=True) as prof:
        step()
        prof.step()
    kernels = ops_of(prof.traces[0])
    assert set(kernels.column("thread").to_pylist()) == {"mindspore operators"}
    assert set(kernels.column("depth").to_pylist()) == {0}


@pytest.mark.parametrize(
    "where",
    [
        "in a recorded step",
        "before recording starts",
        "before the end",
    ],
)
def test_an_error_of_the_programs_own_kernels_reaches_the_program(where: str) -> None:
    """MindSpore tells it to whoever waits first, which is the profiler: it must not keep it."""
    schedule = up.schedule(wait=1 if where == "before recording starts" else 0, warmup=0, active=2)
    values, index = ms.Tensor(np.ones((4, 4), np.float32)), ms.Tensor(np.full((4, 4), 77, np.int64))
    prof = up.Profiler(schedule=schedule, backend="mindspore")
    prof.start()
    ops.gather_elements(values, 1, index)
    with pytest.raises(RuntimeError, match="GatherD"):
        prof.stop() if where == "before the end" else prof.step()
    if where != "before the end":
        prof.stop()
    assert prof.failures == ()
