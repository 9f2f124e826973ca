"""The inputs of the device benchmark are what they are meant to be; nothing is measured here."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import unified_profiler as up
from tests.devices.kineto_walk import walk
from tests.devices.walked_figures import breakdown

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules of the benchmarks, which are not installed."""
    monkeypatch.syspath_prepend(ROOT)
    names = ("large_traces", "device_fleet", "devices", "hta_peer")
    return SimpleNamespace(**{name: importlib.import_module(f"benchmarks.{name}") for name in names})


def test_a_repeated_trace_has_the_work_and_the_steps_of_all_copies(bench: Any, tmp_path: Path) -> None:
    source = ROOT / "tests" / "golden" / "kineto" / "nccl_rank.json.gz"
    once, twice = walk(source), walk(bench.large_traces.repeated_gpu_trace(tmp_path / "trace.json", times=2))
    assert [number for number, _, _ in twice.steps] == [4, 5, 6, 7, 8, 9]
    for steps in ({4, 5, 6}, {7, 8, 9}):
        copy = [span for span in twice.work if span.step in steps]
        assert breakdown(copy) == breakdown(once.work)
        assert all(span.launch is not None for span in copy)


def test_every_copy_of_a_rocm_trace_has_all_of_its_events(bench: Any, tmp_path: Path) -> None:
    source = bench.large_traces.ROCM
    copies = bench.large_traces.repeated_gpu_trace(tmp_path / "trace.json", times=3, source=source)
    assert len(walk(copies).work) == 3 * len(walk(source).work)
    assert len(up.read(copies).traces[0].events) == 3 * len(up.read(source).traces[0].events)


def test_the_device_table_of_a_fleet_is_known(bench: Any, tmp_path: Path) -> None:
    fleet = bench.device_fleet.DeviceFleet(ranks=2, steps=3, operators=250)
    rows = up.device_table(up.read(fleet.write(tmp_path))).table.to_pylist()
    assert bench.device_fleet.wrong_rows(fleet, rows) == 0
    assert bench.device_fleet.wrong_rows(fleet, [{**rows[0], "busy_ns": 1}, *rows[1:]]) == 1
    assert bench.device_fleet.wrong_rows(fleet, rows[1:]) == 1


def test_every_analysis_of_the_peer_is_compared_once(bench: Any) -> None:
    parts = [part for parts in bench.devices.ANALYSES.values() for part in parts]
    assert sorted(parts) == sorted(bench.hta_peer.ANALYSES)


def test_without_the_peer_only_our_own_times_are_reported(bench: Any) -> None:
    seconds = {"read": 1.0, **dict.fromkeys(bench.devices.ANALYSES, 0.5)}
    figures = bench.devices._gpu_figures({"seconds": seconds, "events": 10, "peak": 1, "peak_read": 1}, None)
    assert {figure.against for figure in figures} == {"itself"}
    assert not any(figure.bound for figure in figures)
