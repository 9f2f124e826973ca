"""Recording writes nothing to stderr."""

from __future__ import annotations

import re

import pytest
import torch

import unified_profiler as up
from unified_profiler_torch import backend


def test_recording_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    plan = up.schedule(wait=1, warmup=1, active=1, repeat=2)
    with up.Profiler(schedule=plan, backend="torch") as prof:
        for _ in range(6):
            torch.ones(3).sum()
            prof.step()
    assert len(prof.traces) == 2
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("line", "routine"),
    [
        ("USDT:2026-11-19 21:10:59 3251:3251 SyncActivityProfilerHandler.cpp:52] profiler_start", True),
        ("ERROR:2026-11-19 23:37:42 7487:7487 DeviceProperties.cpp:50] gpuGetDeviceCount failed with code 35", True),
        ("ERROR:2026-11-19 23:37:42 7487:7487 DeviceProperties.cpp:50] gpuGetDeviceCount failed with code 999", False),
        ("ERROR:2026-11-19 23:37:42 7487:7487 CuptiActivityApi.cpp:190] CUPTI_ERROR_NOT_INITIALIZED", False),
    ],
)
def test_what_a_machine_without_a_gpu_reports_is_routine(line: str, routine: bool) -> None:
    assert bool(re.match(backend.abilities.routine_messages or "", line)) == routine
