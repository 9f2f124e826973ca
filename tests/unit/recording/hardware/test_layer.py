"""Hardware counters as a part of a Profiler and of its traces."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.model.trace import Trace
from unified_profiler.recording import execution
from unified_profiler.recording.api import call_log, tracer
from unified_profiler.recording.hardware import sampler
from unified_profiler.recording.hardware.counters import COUNTERS, GPU_MEMORY
from unified_profiler.recording.hardware.readings import Reading, Source
from unified_profiler.recording.own_threads import OwnThread
from unified_profiler.testing import FakeBackend, FakeSurface

NEVER = 0.001
"""Readings in a second: none but the first and the last of a window comes about in a test."""


def counters(trace: Trace) -> list[dict[str, Any]]:
    return [row for row in trace.events.to_pylist() if row["kind"] == "counter"]


def rest(trace: Trace) -> list[dict[str, Any]]:
    return [row for row in trace.events.to_pylist() if row["kind"] != "counter"]


def test_what_is_recorded_are_counters_of_the_list() -> None:
    with up.Profiler(backend=FakeBackend(memory={"cuda:0": 5}), hardware_hz=NEVER, strict=True) as prof:
        prof.step()
    (trace,) = prof.traces
    known = {counter.name for counter in COUNTERS} | {"fake memory bytes"}
    found = {row["name"] for row in counters(trace)}
    assert {"process memory bytes", "system memory available bytes", "fake memory bytes"} <= found <= known
    assert trace.info.event_count == len(trace)


def test_every_recorded_cycle_has_its_counters_and_no_other_time() -> None:
    with up.Profiler(schedule=up.schedule(wait=1, warmup=1, active=1, repeat=2), hardware_hz=NEVER) as prof:
        for _ in range(8):
            prof.step()
    assert [{row["cycle"] for row in counters(trace)} for trace in prof.traces] == [{0}, {1}]
    for trace in prof.traces:
        times = [row["start_ns"] for row in counters(trace)]
        assert trace.info.start_ns <= min(times) <= max(times) <= trace.info.end_ns


@pytest.mark.parametrize("options", [{"level": 0}, {"hardware_hz": 0}], ids=["level 0", "0 Hz"])
def test_switched_off_there_is_no_thread(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: OwnThread) -> None:
        raise AssertionError

    monkeypatch.setattr(OwnThread, "start", refuse)
    with up.Profiler(backend=FakeBackend(), strict=True, **options) as prof:
        prof.step()
    assert not any(counters(trace) for trace in prof.traces)


def test_api_calls_alone_are_recorded_without_counters() -> None:
    assert up.trace_api(backend="torch").settings.hardware_hz == 0


def test_two_profilers_sample_at_once() -> None:
    with up.Profiler(level=1, hardware_hz=NEVER) as one, up.Profiler(level=1, hardware_hz=NEVER) as two:
        pass
    assert counters(one.traces[0])
    assert counters(two.traces[0])


# --- in a trace --------------------------------------------------------------------------------------------------


def sampled(monkeypatch: pytest.MonkeyPatch, backend: FakeBackend, *steps: str, **options: Any) -> up.Profiler:
    """Record steps of one operator each, with a reading in the middle of each."""
    monkeypatch.setattr(
        execution,
        "HardwareSampler",
        lambda **given: sampler.HardwareSampler(
            **given,
            sources=lambda: [Source("all", lambda: [Reading(GPU_MEMORY, 1.5), Reading(GPU_MEMORY, 2.5, "cuda:0")])],
        ),
    )
    options = {"hardware_hz": NEVER, **options}
    with up.Profiler(backend=backend, clock=backend.clock, **options) as prof:
        for name in steps:
            backend.op(name)
            sampling = prof._execution._hardware.sampling
            if sampling is not None:
                sampling.read()
            prof.step()
    return prof


def test_counters_lie_in_the_steps_in_which_they_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    (trace,) = sampled(monkeypatch, FakeBackend(), "a", "b").traces
    assert {0, 1} <= {row["step"] for row in counters(trace)} <= {0, 1, None}
    assert (trace.info.first_step, trace.info.last_step) == (0, 1)
    assert [row["name"] for row in rest(trace) if row["kind"] == "step"] == ["step 0", "step 1"], "no empty last step"


def test_counters_are_outside_the_tree_and_of_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    (trace,) = sampled(monkeypatch, FakeBackend(), "a").traces
    for row in counters(trace):
        assert (row["parent_id"], row["depth"], row["self_ns"], row["tid"], row["module"]) == (None, 0, 0, None, None)
        assert row["pid"] == os.getpid()


def test_tables_are_the_same_with_counters_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    (trace,) = sampled(monkeypatch, FakeBackend(), "a", "b").traces
    keep = [row["kind"] != "counter" for row in trace.events.to_pylist()]
    without = Trace(trace.events.filter(keep), trace.info)
    for by in ("name", "device", "thread", "kind", "layer"):
        assert str(up.op_table(trace, by=by)) == str(up.op_table(without, by=by))
    assert up.step_breakdown(trace).rows == up.step_breakdown(without).rows


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".parquet"])
def test_counters_come_back_from_files(suffix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (trace,) = sampled(monkeypatch, FakeBackend(), "a", "b").traces
    (read,) = up.read(up.write(trace, tmp_path / f"trace{suffix}")).traces
    assert read.events.to_pylist() == trace.events.to_pylist()


def test_parts_have_the_counters_of_their_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(execution, "PART", 4)
    monkeypatch.setattr(call_log, "BLOCK", 2)
    monkeypatch.setattr(tracer, "_FULL", 2 * call_log.ROW.size)
    surface = FakeSurface()

    class Calling(FakeBackend):
        def op(self, name: str) -> None:
            for _ in range(4):
                surface.module.norm(2)

    backend = Calling(surface=surface)
    prof = sampled(monkeypatch, backend, "a", "b", "c", api=True, operators=False, output_dir=tmp_path)
    assert not prof.failures
    assert len(prof.traces) > 2
    assert sum(len(counters(trace)) for trace in prof.traces) == 2 * 5, "three readings, the first and the last"
    for trace in prof.traces:
        for row in counters(trace):
            assert trace.info.start_ns <= row["start_ns"] <= trace.info.end_ns


# --- never in the way --------------------------------------------------------------------------------------------


def broken() -> Iterator[Reading]:
    message = "no /proc here"
    raise OSError(message)


def test_a_profiler_that_nobody_stopped_does_not_sample_for_ever() -> None:
    profiler = up.Profiler(level=1)
    profiler.start()
    sampling = profiler._execution._hardware.sampling
    assert sampling is not None
    assert not sampling._thread.join(0)
    del profiler
    gc.collect()
    assert sampling._thread.join(600)


def test_a_source_that_fails_is_among_the_failures_and_strict_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        execution,
        "HardwareSampler",
        lambda **given: sampler.HardwareSampler(**given, sources=lambda: [Source("the sea", broken)]),
    )
    with up.Profiler(level=1) as prof:
        prof.step()
    assert [failure.action for failure in prof.failures] == ["read the sea"]
    assert len(prof.traces) == 1
    strict = up.Profiler(level=1, strict=True)
    strict.start()
    with pytest.raises(OSError, match="no /proc here"):
        strict.stop()


def test_calls_of_the_api_on_a_thread_of_the_profilers_are_not_traced() -> None:
    surface = FakeSurface()

    class Asking(FakeBackend):
        def allocated_bytes(self) -> dict[str, int]:
            return {"cuda:0": surface.module.norm(3)}

    backend = Asking(surface=surface)
    with up.Profiler(backend=backend, clock=backend.clock, api={"inside": True}, hardware_hz=NEVER) as prof:
        surface.module.square(2)
    rows = prof.traces[0].events.to_pylist()
    assert [row["name"] for row in rows if row["kind"] == "api_call"] == ["madeup.square"]
    assert 3 in [row["value"] for row in rows if row["name"] == "fake memory bytes"]


def test_profilers_of_python_code_do_not_see_the_thread() -> None:
    seen: set[int] = set()
    threading.setprofile(lambda *_: seen.add(threading.get_ident()))
    try:
        with up.Profiler(level=1, hardware_hz=NEVER):
            pass
    finally:
        threading.setprofile(None)
    assert not seen


FORK = """
import os, threading, warnings
import unified_profiler as up
warnings.simplefilter("ignore")
with up.Profiler(level=1, hardware_hz=1000) as prof:
    child = os.fork()
    if not child:
        alone = len(os.listdir("/proc/self/task")) == 1
        prof.step()
        os._exit(0 if alone else 1)
    _, status = os.waitpid(child, 0)
    prof.step()
assert os.waitstatus_to_exitcode(status) == 0
assert "process memory bytes" in prof.traces[0].events.column("name").to_pylist()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_forked_child_does_not_sample() -> None:
    result = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
