"""Conformance tests for backends: subclass `BackendConformance`, implement `work()`, and run it with pytest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pyarrow.compute as pc
import pytest

from unified_profiler.delivery.finishing import EndedCycle
from unified_profiler.delivery.pending import load, store
from unified_profiler.errors import TraceFormatError
from unified_profiler.model.assembly import assemble
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable, Kind
from unified_profiler.profiler import Profiler
from unified_profiler.recording.window import Window
from unified_profiler.schedule import schedule
from unified_profiler.spi import Backend, Capability, NativeCapture, Recorder, RecordOptions
from unified_profiler.testing.divergences import Divergence


class BackendConformance:
    """Tests for every backend.

    A subclass sets `backend` and `module`, implements `work()`, and lists in `divergences` the missing capabilities
    with `never`, `notyet` or `notimpl` of this package: each is a strict expected failure.
    """

    backend: Backend
    module: str
    """Name of the module that contains the descriptor."""
    divergences: ClassVar[Mapping[Capability, Divergence]] = MappingProxyType({})

    def work(self) -> Any:
        """Run one iteration in the framework and return a value to compare, such as a loss."""
        raise NotImplementedError

    def record(self, workdir: Path, *, iterations: int = 1, **options: Any) -> NativeCapture:
        """Record some iterations with a new recorder."""
        recorder = self._recorder(workdir, **options)
        recorder.arm()
        recorder.start()
        for step in range(iterations):
            recorder.mark_step(step)
            self.work()
        return recorder.stop()

    def normalize(self, capture: NativeCapture) -> EventTable:
        """Return the events of a capture, nested."""
        return assemble([self.backend.normalizer().normalize(capture)], host="host")

    # --- the descriptor ---------------------------------------------------------------------------------------

    def test_importing_the_descriptor_imports_no_framework(self) -> None:
        code = f"import sys, {self.module}; sys.exit({self.backend.module!r} in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_its_name_and_module_are_words(self) -> None:
        assert self.backend.name.isidentifier()
        assert self.backend.module

    # --- recording --------------------------------------------------------------------------------------------

    def test_a_recorded_iteration_gives_operators(self, tmp_path: Path) -> None:
        events = self.normalize(self.record(tmp_path))
        assert Kind.OP.value in events.column("kind").to_pylist()

    def test_files_are_written_below_the_work_directory_only(self, tmp_path: Path) -> None:
        capture = self.record(tmp_path)
        assert capture.files
        assert all(file.exists() and tmp_path in file.parents for file in capture.files)

    def test_warm_up_is_not_recorded(self, tmp_path: Path) -> None:
        single = self._op_count(self.record(self._directory(tmp_path, "single")))
        recorder = self._recorder(self._directory(tmp_path, "warm"))
        recorder.arm()
        self.work()
        recorder.start()
        recorder.mark_step(0)
        self.work()
        assert self._op_count(recorder.stop()) == single

    def test_twice_the_work_gives_twice_the_operators(self, tmp_path: Path) -> None:
        single = self._op_count(self.record(self._directory(tmp_path, "one")))
        double = self._op_count(self.record(self._directory(tmp_path, "two"), iterations=2))
        assert double == 2 * single

    @pytest.mark.parametrize("reached", ["made", "armed", "started", "stopped"])
    def test_discard_in_any_state_leaves_the_next_recorder_working(self, reached: str, tmp_path: Path) -> None:
        recorder = self._recorder(self._directory(tmp_path, "discarded"))
        verbs = {"made": (), "armed": ("arm",), "started": ("arm", "start"), "stopped": ("arm", "start", "stop")}
        for verb in verbs[reached]:
            getattr(recorder, verb)()
        recorder.discard()
        recorder.discard()
        assert self._op_count(self.record(self._directory(tmp_path, "next"))) > 0

    def test_recording_does_not_change_what_the_work_gives(self, tmp_path: Path) -> None:
        expected = self.work()
        recorder = self._recorder(tmp_path)
        recorder.arm()
        recorder.start()
        actual = self.work()
        recorder.discard()
        assert actual == expected

    # --- normalizing ------------------------------------------------------------------------------------------

    def test_events_have_the_schema(self, tmp_path: Path) -> None:
        table = self.backend.normalizer().normalize(self.record(tmp_path))
        assert table.schema.equals(EVENT_SCHEMA)

    def test_events_carry_the_framework(self, tmp_path: Path) -> None:
        events = self.normalize(self.record(tmp_path))
        assert set(events.column("framework").to_pylist()) == {self.backend.name}

    def test_times_lie_in_the_window_on_the_common_clock(self, tmp_path: Path) -> None:
        before = time.time_ns()
        events = self.normalize(self.record(tmp_path))
        after = time.time_ns()
        slack = 5_000_000
        ends = pc.add(events.column("start_ns"), events.column("duration_ns"))
        assert before - slack <= pc.min(events.column("start_ns")).as_py()
        assert pc.max(ends).as_py() <= after + slack
        assert pc.min(events.column("duration_ns")).as_py() >= 0
        assert pc.min(events.column("self_ns")).as_py() >= 0

    def test_a_capture_is_recognized_and_other_files_are_not(self, tmp_path: Path) -> None:
        capture = self.record(self._directory(tmp_path, "capture"))
        other = tmp_path / "other.json"
        other.write_text('{"hello": "world"}')
        normalizer = self.backend.normalizer()
        assert any(normalizer.recognizes(path) for path in (*capture.files, *(f.parent for f in capture.files)))
        assert not normalizer.recognizes(other)
        assert not normalizer.recognizes(tmp_path / "missing.json")

    def test_a_capture_can_be_written_down_and_normalized_elsewhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The files may be moved, the details become JSON, and the process may be a different one."""
        cycle, moved = self._directory(tmp_path, "cycle"), tmp_path / "moved"
        capture = self.record(self._directory(cycle, self.backend.name), record_shapes=True, with_flops=True)
        expected = self.backend.normalizer().normalize(capture)
        window = Window(cycle=0, start_ns=0, end_ns=0, tid=0, thread="", steps=(), regions=())
        store(EndedCycle(window=window, info=TraceInfo(), captures=(capture,)), cycle)
        cycle.rename(moved)
        monkeypatch.setattr(os, "getpid", lambda: 1)
        (restored,) = load(moved).captures
        assert self.backend.normalizer().normalize(restored).to_pylist() == expected.to_pylist()

    def test_a_truncated_capture_is_a_format_error(self, tmp_path: Path) -> None:
        capture = self.record(tmp_path)
        for file in capture.files:
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        with pytest.raises(TraceFormatError):
            self.backend.normalizer().normalize(capture)

    @pytest.mark.parametrize(
        ("capability", "column"),
        [
            (Capability.SHAPES, "input_shapes"),
            (Capability.MEMORY, "bytes"),
            (Capability.STACKS, "stack"),
            (Capability.FLOPS, "flops"),
        ],
    )
    def test_what_it_can_record_is_in_its_column(
        self, capability: Capability, column: str, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        divergence = self.divergences.get(capability)
        if divergence is not None:
            request.applymarker(pytest.mark.xfail(reason=divergence.reason, strict=True, raises=AssertionError))
        assert capability in self.backend.capabilities
        events = self.normalize(self.record(tmp_path, **{capability.value: True}))
        assert events.column(column).null_count < len(events)

    # --- memory -----------------------------------------------------------------------------------------------

    def test_the_memory_that_it_reports_is_bytes_by_device(self) -> None:
        allocated_bytes = self.backend.abilities.allocated_bytes
        if allocated_bytes is None:
            pytest.skip(f"{self.backend.name} does not report allocated memory")
        self.work()
        for device, amount in allocated_bytes().items():
            assert re.fullmatch(r"[a-z]+:\d+", device)
            assert amount >= 0

    # --- under the Profiler -----------------------------------------------------------------------------------

    def test_the_profiler_records_exactly_the_scheduled_steps(self) -> None:
        profiler = Profiler(
            schedule=schedule(wait=1, warmup=1, active=2, repeat=2), backend=self.backend.name, strict=True
        )
        with profiler:
            for _ in range(9):
                self.work()
                profiler.step()
        assert [self._op_steps(trace.events) for trace in profiler.traces] == [{2, 3}, {6, 7}]

    def test_traces_and_manifests_name_the_backend_not_its_module(self, tmp_path: Path) -> None:
        with Profiler(backend=self.backend.name, output_dir=tmp_path, strict=True) as profiler:
            self.work()
        (trace,) = profiler.run.traces
        assert list(trace.info.frameworks) == [self.backend.name]
        assert set(trace.events.column("framework").drop_null().to_pylist()) == {self.backend.name}

    # --- helpers ----------------------------------------------------------------------------------------------

    def _recorder(self, workdir: Path, **options: Any) -> Recorder:
        return self.backend.recorder(RecordOptions(**options), workdir)

    def _op_count(self, capture: NativeCapture) -> int:
        events = self.backend.normalizer().normalize(capture)
        return int(pc.sum(pc.equal(events.column("kind"), Kind.OP.value)).as_py())

    def _op_steps(self, events: EventTable) -> set[int | None]:
        ops = events.filter(pc.equal(events.column("kind"), Kind.OP.value))
        return set(ops.column("step").to_pylist())

    def _directory(self, parent: Path, name: str) -> Path:
        directory = parent / name
        directory.mkdir()
        return directory
