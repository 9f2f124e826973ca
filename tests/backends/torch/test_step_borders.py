"""Steps that end inside a native event, as they do when a hook of the optimizer ends them."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import unified_profiler as up


@pytest.fixture(scope="module")
def trace() -> up.Trace:
    layer = torch.nn.Linear(8, 4)
    optimizer = torch.optim.Adam(layer.parameters())
    prof = up.Profiler(schedule=up.schedule(wait=1, warmup=1, active=3, repeat=1), strict=True)
    optimizer.register_step_post_hook(lambda *_: prof.step())
    with prof:
        for _ in range(7):
            optimizer.zero_grad()
            layer(torch.ones(2, 8)).sum().backward()
            optimizer.step()
    return prof.traces[0]


def test_every_step_has_its_forward_backward_and_update(trace: up.Trace) -> None:
    rows = [row for row in trace.events.to_pylist() if row["kind"] == "op"]
    counts = Counter((row["step"], row["direction"]) for row in rows)
    for direction in ("forward", "backward", "update"):
        assert len({counts[step, direction] for step in (2, 3, 4)}) == 1
        assert counts[2, direction] > 0


def test_the_optimizer_of_each_step_belongs_to_it_with_its_operators(trace: up.Trace) -> None:
    events = {row["id"]: row for row in trace.events.to_pylist()}
    optimizers = [row for row in events.values() if row["name"] == "Optimizer.step#Adam.step"]
    assert [row["step"] for row in optimizers] == [2, 3, 4]
    inside = Counter(row["parent_id"] for row in events.values() if row["kind"] == "op")
    assert len({inside[row["id"]] for row in optimizers}) == 1
    assert inside[optimizers[0]["id"]] > 0


def test_an_event_that_is_open_when_recording_ends_ends_there(trace: up.Trace) -> None:
    rows = trace.events.to_pylist()
    last = max(row["start_ns"] + row["duration_ns"] for row in rows if row["name"] == "Optimizer.step#Adam.step")
    assert last <= trace.info.end_ns + 1_000_000
    assert len({row["tid"] for row in rows if row["layer"] == "framework"}) == 1
