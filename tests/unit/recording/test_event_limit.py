from __future__ import annotations

import json
from typing import Literal

import pyarrow.compute as pc
import pytest

import unified_profiler as up
from unified_profiler import registry
from unified_profiler.presentation.texts import render_hint
from unified_profiler.testing import FakeBackend


def record(
    most: int, *, steps: int = 4, operators: int = 10, deliver: Literal["immediate", "deferred"] = "immediate"
) -> up.Trace:
    """Record steps of as many operators each."""
    backend = FakeBackend()
    with up.Profiler(backend=backend, clock=backend.clock, max_events=most, deliver=deliver, hardware_hz=0) as profiler:
        for _ in range(steps):
            for _ in range(operators):
                backend.op("fake::op")
            profiler.step()
    assert profiler.failures == ()
    (trace,) = profiler.traces
    return trace


def operators_by_step(trace: up.Trace) -> dict[int, int]:
    rows = trace.events.filter(pc.equal(trace.events["name"], "fake::op")).group_by("step").aggregate([("id", "count")])
    return dict(zip(rows["step"].to_pylist(), rows["id_count"].to_pylist(), strict=True))


@pytest.mark.parametrize("most", [0, 40, 1000])
def test_a_cycle_within_the_limit_is_left_alone(most: int) -> None:
    trace = record(most)
    assert operators_by_step(trace) == dict.fromkeys(range(4), 10)
    assert (trace.info.hints, trace.info.complete) == ((), True)


@pytest.mark.parametrize("deliver", ["immediate", "deferred"])
@pytest.mark.parametrize(("most", "whole"), [(39, 3), (30, 3), (25, 2), (10, 1)])
def test_of_a_cycle_beyond_the_limit_the_first_whole_steps_stay(
    most: int, whole: int, deliver: Literal["immediate", "deferred"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "get", {"fake": FakeBackend()}.__getitem__)
    trace = record(most, deliver=deliver)
    assert operators_by_step(trace) == dict.fromkeys(range(whole), 10)
    (hint,) = trace.info.hints
    assert f"40 events were recorded in 4 steps, more than max_events allows ({most})" in hint
    assert f"the first {10 * whole} of them, {whole} whole steps. Record fewer steps" in hint
    assert (trace.info.complete, trace.info.last_step) == (False, whole - 1)
    assert render_hint(hint, language="zh") != hint


def test_of_a_single_step_beyond_the_limit_its_beginning_stays_and_it_is_marked() -> None:
    trace = record(7)
    assert operators_by_step(trace) == {0: 7}
    (step,) = trace.events.filter(pc.equal(trace.events["kind"], "step")).to_pylist()
    assert json.loads(step["attributes"]) == {"finished": False}
    assert "Record fewer steps" not in trace.info.hints[0]
    assert render_hint(trace.info.hints[0], language="zh") != trace.info.hints[0]
