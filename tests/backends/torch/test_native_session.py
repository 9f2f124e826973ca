"""Profilers of the program, and its threads, meet a recording: the process, the training and its profilers live on.

What is tested for is a segmentation fault, so the scenarios run in another process, one after the other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

ROUNDS = 3

HARNESS = """
import json, sys, threading, warnings
import torch
import unified_profiler as up
from torch.autograd import profiler as autograd_profiler, profiler_legacy

SCHEDULE = up.schedule(wait=1, warmup=1, active=2, repeat=3)  # steps 2 and 3, 6 and 7, 10 and 11 are recorded
warnings.simplefilter("ignore")
profiler_legacy.profile.key_averages = lambda self: self.function_events.key_averages()

class Training:
    def __init__(self):
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.losses = []

    def step(self, inputs=None):
        with torch.profiler.record_function("whole step"):
            loss = self.model(torch.randn(4, 8) if inputs is None else inputs).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())

def on_another_thread(function):
    thread = threading.Thread(target=function, name="other")
    thread.start()
    thread.join()

def operators(trace):
    return sum(row["kind"] == "op" for row in trace.events.to_pylist())

def failures(prof):
    return [[failure.action, failure.error.split(":")[0], failure.cycle] for failure in prof.failures]

def results(scenario, mark):
    training = Training()
    theirs = scenario(training, mark)
    counts = [sum(row.count for row in profile.key_averages() if row.key == "aten::addmm") for profile in theirs]
    return training.losses, counts

def is_free():
    if autograd_profiler._is_profiler_enabled or torch.autograd._profiler_enabled():
        return False
    with up.Profiler(backend="torch") as later:
        Training().step()
    return not later.failures and operators(later.traces[0]) > 0

def run(scenario):
    expected = results(scenario, lambda: None)
    for _ in range(int(sys.argv[1])):
        with up.Profiler(schedule=SCHEDULE, backend="torch") as prof:
            found = results(scenario, prof.step)
        yield {
            "same results": found == expected,
            "failures": failures(prof),
            "recorded": [operators(trace) > 0 for trace in prof.traces],
            "free": is_free(),
        }
"""

WITHIN = """
def scenario(training, mark):
    theirs = {make}()
    for number in range(14):
        if number == {start}:
            theirs.__enter__()
        training.step()
        if number == {stop}:
            theirs.__exit__(None, None, None)
        mark()
    return [theirs]
"""
WITH_MARKS = """
def scenario(training, mark):
    for number in range(14):
        with autograd_profiler.emit_itt(enabled=number == 6):
            training.step()
        mark()
    return []
"""
WITH_SCHEDULE = """
def scenario(training, mark):
    ready = []
    with torch.profiler.profile(
        schedule=torch.profiler.schedule(wait={wait}, warmup=3, active=1, repeat=1),
        on_trace_ready=lambda profile: ready.append(profile.key_averages()),
    ) as theirs:
        for number in range(14):
            training.step()
            theirs.step()
            mark()
    theirs.key_averages = lambda: ready[0]
    return [theirs]
"""
ON_ANOTHER_THREAD = """
def scenario(training, mark):
    theirs, other, begun, over = torch.profiler.profile(), Training(), threading.Event(), threading.Event()
    inputs = torch.ones(4, 8)
    def work():
        with theirs:
            other.step(inputs)
            begun.set()
            over.wait()
    thread = threading.Thread(target=work)
    for number in range(14):
        if number == 6:
            thread.start()
            begun.wait()
        if number == {stop}:
            over.set()
            thread.join()
        training.step()
        mark()
    training.losses += other.losses
    return [theirs]
"""
STOPPED_BY_THE_PROGRAM = """
def scenario(training, mark):
    for number in range(14):
        training.step()
        if number == 6 and torch.autograd._profiler_enabled():
            torch.autograd._disable_profiler()
        mark()
    return []
"""
STEP_ON_ANOTHER_THREAD = """
def scenario(training, mark):
    for number in range(14):
        training.step()
        mark() if number != {number} else on_another_thread(mark)
    return []
"""
ENDS_WITHIN_BACKWARD = """
def scenario(training, mark):
    for number in range(14):
        if number == 7:
            handle = training.model[0].weight.register_hook(lambda gradient: mark())
            training.step()
            handle.remove()
        else:
            training.step()
            mark()
    return []
"""
PROFILES = ("torch.profiler.profile", "autograd_profiler.profile", "profiler_legacy.profile")
TAKEN = ["stop", "BackendBusyError", 1]
SCENARIOS: dict[str, tuple[str, list[list[Any]], list[bool]]] = {
    **{
        f"{make} inside": (WITHIN.format(make=make, start=6, stop=6), [TAKEN], [True, False, True]) for make in PROFILES
    },
    **{
        f"{make} still runs when this one stops": (
            WITHIN.format(make=make, start=7, stop=8),
            [TAKEN],
            [True, False, True],
        )
        for make in PROFILES
    },
    "marks for another tool inside": (WITH_MARKS, [TAKEN], [True, False, True]),
    "a profile begins and ends while this one warms up": (
        WITHIN.format(make="torch.profiler.profile", start=5, stop=5),
        [],
        [True, True, True],
    ),
    "a profile warms up when this one is armed": (
        WITH_SCHEDULE.format(wait=5),
        [["arm", "BackendBusyError", 1]],
        [True, False, True],
    ),
    "a profile begins to warm up while this one does": (
        WITH_SCHEDULE.format(wait=6),
        [["start", "BackendBusyError", 1], ["arm", "BackendBusyError", 2]],
        [True, False, False],
    ),
    "a profile begins to warm up while this one records": (
        WITH_SCHEDULE.format(wait=4),
        [["stop", "BackendBusyError", 0], ["arm", "BackendBusyError", 1]],
        [False, False, True],
    ),
    "a profile ends on another thread": (ON_ANOTHER_THREAD.format(stop=7), [TAKEN], [True, False, True]),
    "a profile still runs on another thread": (ON_ANOTHER_THREAD.format(stop=8), [TAKEN], [True, False, True]),
    "the program stops this one": (
        STOPPED_BY_THE_PROGRAM,
        [["stop", "NativeProfilerError", 1]],
        [True, False, True],
    ),
    "another thread stops this one": (
        STEP_ON_ANOTHER_THREAD.format(number=7),
        [["stop", "NativeProfilerError", 1]],
        [True, False, True],
    ),
    "another thread starts this one": (
        STEP_ON_ANOTHER_THREAD.format(number=5),
        [["stop", "NativeProfilerError", 1]],
        [True, False, True],
    ),
    "the recording ends within a backward pass": (
        ENDS_WITHIN_BACKWARD,
        [["stop", "NativeProfilerError", 1]],
        [True, False, True],
    ),
    "another thread arms this one": (STEP_ON_ANOTHER_THREAD.format(number=4), [], [True, True, True]),
}
"""Code, and what is expected: failures as action, error and cycle; and in which cycles operators were recorded."""


def python(program: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HARNESS + textwrap.dedent(program), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Runs the scenarios in one process; those it does not come to, because it dies before, have no outcome."""
    calls = (
        f"{code}\nprint(json.dumps([{name!r}, list(run(scenario))]), flush=True)\n"
        for name, (code, *_) in SCENARIOS.items()
    )
    done = python("".join(calls), tmp_path_factory.mktemp("scenarios"), str(ROUNDS))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(lines) | {"exit code": done.returncode, "log": done.stderr}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_training_goes_on_and_the_failure_is_kept(name: str, outcomes: dict[str, Any]) -> None:
    _, failures, recorded = SCENARIOS[name]
    assert name in outcomes, (outcomes["exit code"], outcomes["log"][-3000:])
    as_expected = {"same results": True, "failures": failures, "recorded": recorded, "free": True}
    assert outcomes[name] == [as_expected] * ROUNDS


def test_the_process_ends_as_it_would_without_the_scenarios(outcomes: dict[str, Any]) -> None:
    assert outcomes["exit code"] == 0, outcomes["log"][-3000:]


TWO_THREADS = """
threads, steps, lock = 2, 60, threading.Lock()

def train(mark):
    trainings, inputs, together = [Training() for _ in range(threads)], torch.ones(4, 8), threading.Barrier(threads)
    def work(training):
        together.wait()
        for _ in range(steps):
            training.step(inputs)
            mark()
    workers = [threading.Thread(target=work, args=(training,)) for training in trainings]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [training.losses for training in trainings]

def locked(mark):
    def call():
        with lock:
            mark()
    return call

expected = train(lambda: None)
for around in (locked, lambda mark: mark):
    with up.Profiler(schedule=up.schedule(wait=1, warmup=1, active=2), backend="torch") as prof:
        assert train(around(prof.step)) == expected
    kinds = {(action, error) for action, error, _ in failures(prof)}
    assert kinds <= {("stop", "NativeProfilerError"), ("start", "BackendBusyError"), ("arm", "BackendBusyError")}, kinds
    assert any(operators(trace) for trace in prof.traces)
assert is_free()
print("done")
"""


def test_two_threads_that_call_step_go_on_training(tmp_path: Path) -> None:
    done = python(TWO_THREADS, tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]


DISCARDED = """
from pathlib import Path
from unified_profiler.spi import RecordOptions
from unified_profiler_torch.record.recorder import TorchRecorder

def verbs(*names):
    recorder = TorchRecorder(RecordOptions(keep_native=True), Path("."))
    for name in names:
        getattr(recorder, name)(*([0] if name == "mark_step" else []))
    return recorder

def discard(recorder):
    recorder.discard()
    recorder.discard()

def addmm(theirs):
    return sum(row.count for row in theirs.key_averages() if row.key == "aten::addmm")

def before_it_ends(recorder):
    with torch.profiler.profile() as theirs:
        Training().step()
        discard(recorder)
        Training().step()
    return addmm(theirs)

def after_it_ended(recorder):
    with torch.profiler.profile() as theirs:
        Training().step()
        Training().step()
    discard(recorder)
    return addmm(theirs)

def on_a_thread_after(recorder):
    counts = []
    on_another_thread(lambda: counts.append(after_it_ended(recorder)))
    Training().step()
    return counts[0]

def on_a_thread_before(recorder):
    counts = []
    on_another_thread(lambda: counts.append(before_it_ends(recorder)))
    Training().step()
    return counts[0]

with torch.profiler.profile() as alone:
    Training().step()
    Training().step()
for names in (["arm"], ["arm", "start"], ["arm", "start", "mark_step"]):
    for use in (before_it_ends, after_it_ended, on_a_thread_after, on_a_thread_before):
        for _ in range(int(sys.argv[1])):
            with torch.profiler.record_function("around"):
                found = use(verbs(*names))
            assert found == addmm(alone), (names, use, found)
            assert is_free(), (names, use)
print("done")
"""


def test_discarding_leaves_a_profiler_of_the_program_alone(tmp_path: Path) -> None:
    done = python(DISCARDED, tmp_path, str(ROUNDS))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]


LEFT_BEHIND = """
with up.Profiler(schedule=up.schedule(wait=0, warmup=0, active=1, repeat=1), backend="torch") as prof:
    Training().step()
    on_another_thread(prof.step)
    assert torch.autograd._profiler_enabled()
    on_another_thread(Training().step)
    assert torch.autograd._profiler_enabled()
    Training().step()
    assert not torch.autograd._profiler_enabled()
assert failures(prof) == [["stop", "NativeProfilerError", 0]], prof.failures
assert is_free()
print("done")
"""


def test_a_recording_that_another_thread_stopped_ends_with_the_next_optimizer_step_of_its_own(tmp_path: Path) -> None:
    done = python(LEFT_BEHIND, tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]


ALL_THREADS = """
config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
options = {"torch": {"experimental_config": config}}
for on_thread in (False, True):
    for _ in range(int(sys.argv[1])):
        with up.Profiler(backend="torch", native_options=options) as prof:
            Training().step()
            on_another_thread(prof.step)
            def work():
                with torch.profiler.profile() as theirs:
                    Training().step()
                assert theirs.key_averages()
            on_another_thread(work) if on_thread else work()
        assert failures(prof) == [["stop", "BackendBusyError", 0]], prof.failures
once = up.schedule(wait=0, warmup=0, active=1, repeat=1)
with up.Profiler(schedule=once, backend="torch", native_options=options) as prof:
    on_another_thread(Training().step)
    on_another_thread(prof.step)
assert not prof.failures and operators(prof.traces[0]), prof.failures
assert is_free()
print("done")
"""


def test_a_recording_of_all_threads_may_stop_on_any_and_gives_way_on_any(tmp_path: Path) -> None:
    done = python(ALL_THREADS, tmp_path, str(ROUNDS))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]


AT_EXIT = {
    "the main thread records": """
        prof = up.Profiler(backend="torch")
        prof.start()
        Training().step()
    """,
    "a thread that has ended recorded": """
        prof = up.Profiler(backend="torch")
        on_another_thread(prof.start)
    """,
    "a thread that goes on records": """
        prof = up.Profiler(backend="torch")
        def work():
            prof.start()
            begun.set()
            threading.Event().wait()
        begun = threading.Event()
        threading.Thread(target=work, daemon=True).start()
        begun.wait()
    """,
    "another thread stopped what the main thread records": """
        prof = up.Profiler(backend="torch")
        prof.start()
        on_another_thread(prof.stop)
    """,
    "the main thread stopped what a thread recorded that has ended since": """
        prof = up.Profiler(backend="torch")
        begun, stopped = threading.Event(), threading.Event()
        thread = threading.Thread(target=lambda: (prof.start(), begun.set(), stopped.wait()))
        thread.start()
        begun.wait()
        prof.stop()
        stopped.set()
        thread.join()
    """,
}


@pytest.mark.parametrize("code", AT_EXIT.values(), ids=AT_EXIT)
def test_a_process_that_ends_while_something_records_ends_well(code: str, tmp_path: Path) -> None:
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def test_stopping_at_exit_still_delivers(tmp_path: Path) -> None:
    done = python(
        """
        import atexit
        prof = up.Profiler(backend="torch")
        atexit.register(lambda: (prof.stop(), print(failures(prof), operators(prof.traces[0]) > 0)))
        prof.start()
        Training().step()
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "[] True\n"), done.stderr[-3000:]
