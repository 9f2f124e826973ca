"""Whatever goes wrong in profiling, the training gives the same losses and finished cycles are on disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

import unified_profiler as up
from unified_profiler.model.trace import Trace
from unified_profiler_mindspore.record import native

SCHEDULE = up.schedule(wait=1, warmup=1, active=2, repeat=2)
STEPS = 9
FIRST_OPERATOR = "SystemError" if int(np.__version__.partition(".")[0]) >= 2 else "fine"
"""What becomes of the first operator of a process in MindSpore 2.10: neither brought about nor hidden by recording."""


class Training:
    """A loss that is linear in whole numbers: exact, while MindSpore's sums of others differ from run to run."""

    def __init__(self) -> None:
        self._net = nn.Dense(4, 2, weight_init="ones", bias_init="zeros")
        self._optimizer = nn.SGD(self._net.trainable_params(), 0.5)
        self._gradients = ms.value_and_grad(self._loss, None, self._optimizer.parameters)

    def _loss(self, rows: ms.Tensor) -> ms.Tensor:
        return self._net(rows).sum()

    def losses(self, mark: Callable[[], object] = lambda: None) -> list[float]:
        found = []
        for number in range(STEPS):
            loss, gradients = self._gradients(ms.Tensor(np.full((3, 4), number + 1, np.float32)))
            self._optimizer(gradients)
            found.append(float(loss.asnumpy()))
            mark()
        return found


@pytest.fixture(scope="module")
def expected() -> list[float]:
    return Training().losses()


def profiled(output_dir: Path, **options: Any) -> tuple[list[float], up.Profiler]:
    prof = up.Profiler(schedule=SCHEDULE, output_dir=output_dir, backend="mindspore", **options)
    with prof:
        found = Training().losses(prof.step)
    return found, prof


def op_steps(trace: Trace) -> set[int]:
    rows = trace.events.select(["kind", "step"]).to_pylist()
    return {row["step"] for row in rows if row["kind"] == "op"}


def test_profiling_does_not_change_the_losses(expected: list[float], tmp_path: Path) -> None:
    found, prof = profiled(tmp_path, record_shapes=True, profile_memory=True)
    assert found == expected
    assert [op_steps(trace) for trace in prof.traces] == [{2, 3}, {6, 7}]
    assert prof.failures == ()


def test_a_handler_that_raises(expected: list[float], tmp_path: Path) -> None:
    def broken(_: Trace) -> None:
        msg = "the handler is broken"
        raise RuntimeError(msg)

    found, prof = profiled(tmp_path, on_trace_ready=broken)
    assert found == expected
    assert [op_steps(trace) for trace in up.read(tmp_path).traces] == [{2, 3}, {6, 7}]
    assert {failure.source for failure in prof.failures} == {"handler"}


@pytest.mark.parametrize("verb", ["init", "stop"])
def test_a_native_profiler_that_raises(
    verb: str, expected: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = native.host_profiler()

    class Broken:
        def __getattr__(self, name: str) -> Any:
            if name == verb:
                msg = f"{verb} is broken"
                raise RuntimeError(msg)
            return getattr(real, name)

    with monkeypatch.context() as patch:
        patch.setattr(native, "host_profiler", Broken)
        found, prof = profiled(tmp_path / "broken")
    assert found == expected
    assert {failure.source for failure in prof.failures} == {"mindspore"}
    assert all(f"{verb} is broken" in failure.error for failure in prof.failures)
    real.stop()
    found, prof = profiled(tmp_path / "next")
    assert found == expected
    assert (len(prof.traces), prof.failures) == (2, ())


def test_a_work_directory_that_vanishes(expected: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    with up.Profiler(schedule=SCHEDULE, backend="mindspore") as prof:

        def mark() -> None:
            for folder in (tmp_path / "temporary").iterdir():
                shutil.rmtree(folder)
            prof.step()

        found = Training().losses(mark)
    assert found == expected
    assert [op_steps(trace) for trace in prof.traces] == [{2, 3}, {6, 7}]


def test_a_profile_of_the_program_keeps_the_native_profiler(expected: list[float], tmp_path: Path) -> None:
    with native.output_below(str(tmp_path / "own")):
        own = ms.profiler.profile(activities=[ms.profiler.ProfilerActivity.CPU])
    found, prof = profiled(tmp_path / "run")
    own.stop()
    assert found == expected
    assert {failure.error.split(":")[0] for failure in prof.failures} == {"BackendBusyError"}
    kinds = [trace.events.column("kind").to_pylist() for trace in prof.traces]
    assert [[kind for kind in found if kind != "counter"] for found in kinds] == [["step", "step"], ["step", "step"]]
    assert list((tmp_path / "own").rglob("cpu_op_execute_timestamp_0.txt"))


@pytest.mark.parametrize(("first", "last"), [(6, 6), (7, 7), (7, 8)])
def test_a_profile_of_the_program_that_begins_while_we_record_has_what_it_would_have_had(
    first: int, last: int, expected: list[float], tmp_path: Path
) -> None:
    def kernels(folder: Path, mark: Callable[[], object]) -> int:
        with native.output_below(str(folder)):
            own = ms.profiler.profile(activities=[ms.profiler.ProfilerActivity.CPU], start_profile=False)
        steps = iter(range(STEPS))

        def each() -> None:
            number = next(steps)
            if number == last:
                own.stop()
            mark()
            if number + 1 == first:
                own.start()

        assert Training().losses(each) == expected
        (file,) = folder.rglob("cpu_op_execute_timestamp_0.txt")
        return sum(len(line.split(";")[2].split()) for line in file.read_text().splitlines())

    alone = kernels(tmp_path / "alone", lambda: None)
    with up.Profiler(schedule=SCHEDULE, output_dir=tmp_path / "run", backend="mindspore") as prof:
        assert kernels(tmp_path / "own", prof.step) == alone
    assert [failure.error.split(":")[0] for failure in prof.failures] == ["BackendBusyError"]
    assert [op_steps(trace) for trace in prof.traces] == [{2, 3}, set()]


@pytest.mark.parametrize("odd", [0, 1])
def test_two_threads_that_call_step_in_turn(odd: int, expected: list[float], tmp_path: Path) -> None:
    """MindSpore computes gradients on one thread at a time only."""
    with up.Profiler(schedule=SCHEDULE, output_dir=tmp_path, backend="mindspore") as prof:

        def mark() -> None:
            if prof.current_step % 2 == odd:
                prof.step()
                return
            thread = threading.Thread(target=prof.step)
            thread.start()
            thread.join()

        assert Training().losses(mark) == expected
    assert prof.failures == ()
    assert [op_steps(trace) for trace in prof.traces] == [{2, 3}, {6, 7}]


QUIET = """
import json, sys

started = []
PROCESSES = {"os.fork", "os.posix_spawn", "subprocess.Popen"}
sys.addaudithook(lambda event, _: started.append(event) if event in PROCESSES else None)
import mindspore as ms
import unified_profiler as up
from unified_profiler_mindspore.record import native

taken = native.is_profiler_active()
with up.Profiler(backend="mindspore"):
    pass
try:
    ms.Tensor([1.0]) * ms.Tensor([1.0])
    first = "fine"
except SystemError as error:
    first = "SystemError"
del started[:]
x = ms.ops.ones((3, 3))
schedule = up.schedule(wait=0, warmup=0, active=1, repeat=2)
with up.Profiler(schedule=schedule, backend="mindspore", profile_memory=True) as prof:
    for _ in range(2):
        ms.ops.relu(x)
        prof.step()
json.dump({
    "taken": taken,
    "first": first,
    "started": started,
    "failures": [failure.error for failure in prof.failures],
    "ops": [sum(kind == "op" for kind in trace.events.column("kind").to_pylist()) for trace in prof.traces],
}, open(sys.argv[1], "w"))
"""


def run_quiet(folder: Path, **environment: str) -> tuple[dict[str, Any], str]:
    code = [sys.executable, "-W", "ignore", "-c", QUIET, str(folder / "result.json")]
    done = subprocess.run(code, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((folder / "result.json").read_text()), done.stdout


def test_recording_starts_no_process_prints_nothing_and_leaves_no_files(tmp_path: Path) -> None:
    found, printed = run_quiet(tmp_path)
    assert found == {"taken": False, "first": FIRST_OPERATOR, "started": [], "failures": [], "ops": [1, 1]}
    assert printed == ""
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_profiler_started_by_its_environment_variable_keeps_the_native_profiler(tmp_path: Path) -> None:
    options = json.dumps({"start": True, "output_path": str(tmp_path / "own"), "activities": ["CPU"]})
    found, _ = run_quiet(tmp_path, MS_PROFILER_OPTIONS=options)
    assert (found["taken"], found["ops"]) == (True, [0, 0])
    assert all("MS_PROFILER_OPTIONS" in error for error in found["failures"])
    assert list((tmp_path / "own").rglob("cpu_op_execute_timestamp_0.txt"))
