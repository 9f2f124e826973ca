"""Whatever goes wrong in profiling, the training gives the same losses and finished cycles are on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import unified_profiler as up
from unified_profiler.model.trace import Trace

SCHEDULE = up.schedule(wait=1, warmup=1, active=2, repeat=2)
STEPS = 9


def train(mark: Callable[[], object] = lambda: None, *, steps: int = STEPS) -> list[float]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        mark()
    return losses


@pytest.fixture(scope="module")
def expected() -> list[float]:
    return train()


def profiled(output_dir: Path, **options: Any) -> tuple[list[float], up.Profiler]:
    prof = up.Profiler(schedule=SCHEDULE, output_dir=output_dir, backend="torch", **options)
    with prof:
        losses = train(prof.step)
    return losses, prof


def op_steps(trace: Trace) -> set[int]:
    rows = trace.events.select(["kind", "step"]).to_pylist()
    return {row["step"] for row in rows if row["kind"] == "op"}


def test_profiling_does_not_change_the_losses(expected: list[float], tmp_path: Path) -> None:
    losses, prof = profiled(tmp_path)
    assert losses == expected
    assert [op_steps(trace) for trace in prof.traces] == [{2, 3}, {6, 7}]
    assert prof.failures == ()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_in_the_loop(error: type[BaseException], expected: list[float], tmp_path: Path) -> None:
    seen: list[float] = []
    with pytest.raises(error), up.Profiler(schedule=SCHEDULE, output_dir=tmp_path) as prof:  # noqa: PT012
        seen += train(prof.step, steps=7)
        raise error
    assert seen == expected[:7]
    first, second = up.read(tmp_path).traces
    assert (first.info.complete, second.info.complete) == (True, False)
    assert op_steps(second) == {6}


def test_a_handler_that_raises(expected: list[float], tmp_path: Path) -> None:
    def broken(_: Trace) -> None:
        msg = "the handler is broken"
        raise RuntimeError(msg)

    losses, prof = profiled(tmp_path, on_trace_ready=broken)
    assert losses == expected
    assert len(up.read(tmp_path).traces) == 2
    assert {failure.source for failure in prof.failures} == {"handler"}


@pytest.mark.parametrize("verb", ["prepare_trace", "start_trace", "stop_trace"])
def test_a_native_profiler_that_raises(
    verb: str, expected: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        msg = f"{verb} is broken"
        raise RuntimeError(msg)

    with monkeypatch.context() as patch:
        patch.setattr(torch.profiler.profile, verb, broken)
        losses, prof = profiled(tmp_path / "broken")
    assert losses == expected
    assert len(prof.failures) == 2
    assert f"{verb} is broken" in prof.failures[0].error
    _, later = profiled(tmp_path / "later")
    assert later.failures == ()


def test_a_torch_profiler_that_is_active_already_is_left_alone(expected: list[float], tmp_path: Path) -> None:
    with torch.profiler.profile() as theirs:
        losses, prof = profiled(tmp_path)
    assert losses == expected
    assert prof.failures[0].error.startswith("BackendBusyError")
    assert sum(row.count for row in theirs.key_averages() if row.key == "aten::addmm") == 2 * STEPS


def test_two_profilers_at_once(expected: list[float], tmp_path: Path) -> None:
    first = up.Profiler(output_dir=tmp_path / "first", backend="torch")
    with first:
        losses, second = profiled(tmp_path / "second")
    assert losses == expected
    assert first.failures == ()
    assert second.failures[0].error.startswith("BackendBusyError")
    assert "aten::addmm" in first.traces[0].events.column("name").to_pylist()
    assert [trace.info.first_step for trace in second.traces] == [2, 6]


class Squares(Dataset[torch.Tensor]):  # type: ignore[misc]  # torch is not type-checked here
    def __init__(self, prof: up.Profiler) -> None:
        self.prof = prof

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        with self.prof.region("load"):
            self.prof.step()
            return torch.tensor([float(index**2)])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_data_loader_workers(tmp_path: Path) -> None:
    prof = up.Profiler(output_dir=tmp_path, backend="torch")
    with prof:
        loader = DataLoader(Squares(prof), batch_size=2, num_workers=2, multiprocessing_context="fork")
        total = 0.0
        for batch in loader:
            total += batch.sum().item()
            prof.step()
    assert total == sum(i**2 for i in range(8))
    (trace,) = up.read(tmp_path).traces
    assert {row["step"] for row in trace.events.to_pylist() if row["kind"] == "step"} >= {0, 1, 2, 3}
    assert "load" not in trace.events.column("name").to_pylist()


def test_several_python_threads(tmp_path: Path) -> None:
    prof = up.Profiler(output_dir=tmp_path, backend="torch")
    results: list[float] = []

    def work(index: int) -> None:
        with prof.region(f"thread {index}"):
            results.append(torch.full((3, 3), float(index)).matmul(torch.ones(3, 3)).sum().item())

    with prof:
        threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        prof.step()
    assert sorted(results) == [27.0 * index for index in range(4)]
    rows = [row for row in up.read(tmp_path).traces[0].events.to_pylist() if row["name"].startswith("thread ")]
    assert sorted(row["name"] for row in rows) == [f"thread {index}" for index in range(4)]
    assert len({row["tid"] for row in rows}) == 4


PROGRAM = """
import os, resource, sys, torch
import unified_profiler as up

def ready(trace):
    print("delivered", trace.info.cycle, flush=True)
    if "disk" in sys.argv and trace.info.cycle == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = up.schedule(wait=1, warmup=1, active=2, repeat=2)
with up.Profiler(schedule=schedule, output_dir=sys.argv[1], on_trace_ready=ready) as prof:
    for step in range(9):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item(), flush=True)
        if step == 6 and "wait" in sys.argv:
            print("recording", flush=True)
            sys.stdin.readline()
        prof.step()
for failure in prof.failures:
    print("failure", failure.source, failure.action, flush=True)
"""


def start(program: Path, *arguments: str) -> subprocess.Popen[str]:
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_is_killed_in_its_second_cycle(
    number: signal.Signals, expected: list[float], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    with start(tmp_path / "train.py", str(output), "wait") as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.split())
            if line.startswith("recording"):
                os.kill(process.pid, number)
        process.wait()
    assert [float(words[1]) for words in lines if words[0] == "loss"] == expected[:7]
    run = up.read(output)
    assert [op_steps(trace) for trace in run.traces] == [{2, 3}]
    assert run.manifests[0].ended_ns is None


def test_a_disk_that_is_full_in_the_second_cycle(expected: list[float], tmp_path: Path) -> None:
    output = tmp_path / "out"
    with start(tmp_path / "train.py", str(output), "disk") as process:
        text, _ = process.communicate()
    lines = [line.split() for line in text.splitlines()]
    assert process.returncode == 0
    assert [float(words[1]) for words in lines if words[0] == "loss"] == expected
    assert [words[1] for words in lines if words[0] == "failure"]
    assert [op_steps(trace) for trace in up.read(output).traces][:1] == [{2, 3}]
    assert not list(output.rglob("*.part"))


OPEN_RANGES = """
import gc
from pathlib import Path
import torch, unified_profiler as up

x = torch.randn(8, 8)

def work():
    for _ in range(200):
        (x @ x).sum()

ends = []
with up.Profiler(schedule=up.schedule(wait=0, warmup=0, active=1), backend="torch", record_shapes=True) as prof:
    for _ in range(12):
        work()
        with torch.profiler.record_function("open"):
            work()
            prof.step()  # one recording ends and the next begins within the range
            kept = [[number] for number in range(20_000)]
            work()
        gc.collect()
assert not prof.failures, prof.failures
for trace in prof.traces[:-1]:
    columns = trace.events.select(["name", "start_ns", "duration_ns"]).to_pylist()
    opened = [row for row in columns if row["name"] == "open"]
    assert len(opened) == 1
    assert opened[0]["start_ns"] + opened[0]["duration_ns"] <= trace.info.end_ns
print("done")
"""


def test_a_range_open_across_two_recordings_does_not_corrupt_the_process(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", OPEN_RANGES], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-2000:]


def test_recording_does_not_begin_within_a_backward_pass(tmp_path: Path) -> None:
    weight = torch.ones(4, requires_grad=True)
    with up.Profiler(schedule=up.schedule(wait=1, warmup=0, active=1), output_dir=tmp_path, backend="torch") as prof:
        handle = weight.register_hook(lambda _grad: prof.step())
        (weight * 2).sum().backward()
        handle.remove()
        prof.step()
        prof.step()
        (weight * 2).sum().backward()
        prof.step()
    assert torch.equal(weight.grad, torch.full((4,), 4.0))
    assert ["within a backward pass" in failure.error for failure in prof.failures] == [True]
    assert op_steps(prof.traces[-1]) == {3}
