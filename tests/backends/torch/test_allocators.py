"""Allocated bytes by device. There are no GPUs here, so the functions beneath `torch.cuda` are replaced."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

import unified_profiler as up
from unified_profiler.testing import recorded_calls
from unified_profiler_torch import backend
from unified_profiler_torch.record.allocators import allocated_bytes


def statistics(device: int) -> dict[str, Any]:
    """Return what `torch._C._cuda_memoryStats` returns, as far as it matters: the second of three was never used."""
    held, ever = {0: (1024, 4096), 1: (0, 0), 2: (0, 512)}[device]
    return {"allocated_bytes": {"all": {"current": held, "peak": ever, "allocated": ever, "freed": ever - held}}}


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "_initialized", True)
    monkeypatch.setattr(torch._C, "_cuda_memoryStats", statistics, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", lambda: 3, raising=False)


def test_the_cpu_is_not_reported() -> None:
    torch.ones(10)
    assert allocated_bytes() == {}


def test_asking_initializes_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._C, "_cuda_memoryStats", None, raising=False)
    assert allocated_bytes() == {}
    assert not torch.cuda.is_initialized()
    assert not torch.xpu.is_initialized()


@pytest.mark.usefixtures("cuda")
def test_used_devices_report_their_allocated_bytes() -> None:
    assert backend.abilities.allocated_bytes is not None
    assert backend.abilities.allocated_bytes() == {"cuda:0": 1024, "cuda:2": 0}


@pytest.mark.usefixtures("cuda")
def test_the_names_are_those_that_torch_itself_asks() -> None:
    assert torch.cuda.memory_stats_as_nested_dict(0) == statistics(0)
    assert torch.cuda.memory_allocated(0) == allocated_bytes()["cuda:0"]


@pytest.mark.usefixtures("cuda")
def test_the_counter_is_in_the_trace_and_asking_for_it_is_no_api_call() -> None:
    with up.Profiler(backend="torch", operators=False, api={"inside": True}, strict=True) as prof:
        torch.nn.functional.relu(torch.ones(2))
    rows = recorded_calls(prof, kind="counter")
    assert {(row["device"], row["value"]) for row in rows if row["name"] == "torch memory bytes"} == {
        ("cuda:0", 1024),
        ("cuda:2", 0),
    }
    assert not {row["name"] for row in recorded_calls(prof) if "cuda" in row["name"]}
    assert "torch.nn.functional.relu" in {row["name"] for row in recorded_calls(prof)}


def test_stacks_of_the_profilers_thread_are_not_recorded() -> None:
    """Runs in its own process: torch records the frames of all threads that exist when it starts."""
    script = """
import torch
import unified_profiler as up
with up.Profiler(backend="torch", with_stack=True, hardware_hz=1000, strict=True) as prof:
    for _ in range(20):
        torch.ones(100, 100) @ torch.ones(100, 100)
names = set(prof.traces[0].events.column("name").to_pylist())
assert "process memory bytes" in names
print([name for name in names if "hardware" in name and name.endswith((": read", ": _read", ": _run"))])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.strip()) == (0, "[]"), ran.stderr
