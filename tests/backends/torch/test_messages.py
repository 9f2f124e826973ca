"""Recording writes nothing to stderr."""

from __future__ import annotations

import pytest
import torch

import unified_profiler as up


def test_recording_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    plan = up.schedule(wait=1, warmup=1, active=1, repeat=2)
    with up.Profiler(schedule=plan, backend="torch") as prof:
        for _ in range(6):
            torch.ones(3).sum()
            prof.step()
    assert len(prof.traces) == 2
    assert capfd.readouterr().err == ""
