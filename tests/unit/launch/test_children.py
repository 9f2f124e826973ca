"""Which child processes are worth a hint: the script's own, not the helpers of frameworks."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from unified_profiler.launch import children
from unified_profiler.launch.children import Children
from unified_profiler.launch.post_import import ImportWatch

RUN_NOTHING = "import subprocess, sys\ndef start():\n    subprocess.run([sys.executable, '-c', ''], check=True)\n"


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[str]]:
    """Watches a call, after which children have used as much CPU time as the process itself."""

    def watch(call: Callable[[], object]) -> list[str]:
        watched = Children({"madeup"})
        with ImportWatch() as imports, watched.watched(imports):
            call()
        monkeypatch.setattr(
            children, "_cpu_seconds", lambda: tuple(seconds + 10.0 for seconds in watched._cpu_at_start)
        )
        return list(watched.hints())

    return watch


def module(name: str) -> ModuleType:
    made = ModuleType(name)
    exec(RUN_NOTHING, made.__dict__)  # noqa: S102  code of a module of that name
    return made


def nothing() -> None:
    pass


def test_programs_that_the_script_runs_are_mentioned(hints: Callable[..., list[str]]) -> None:
    (hint,) = hints(module("script").start)
    assert "(1 of another program) used 10.000 s of CPU time" in hint


def test_programs_that_a_framework_runs_are_not(hints: Callable[..., list[str]]) -> None:
    assert hints(module("madeup.compiler").start) == []


def test_processes_of_multiprocessing_are_mentioned_unless_they_are_daemons(hints: Callable[..., list[str]]) -> None:
    def start(daemon: bool) -> None:
        process = multiprocessing.get_context("spawn").Process(target=nothing, daemon=daemon)
        process.start()
        process.join()

    (hint,) = hints(lambda: start(False))
    assert "(1 of nothing)" in hint
    assert hints(lambda: start(True)) == []


def test_afterwards_nothing_is_watched(hints: Callable[..., list[str]]) -> None:
    before = dict(vars(subprocess.Popen)), dict(vars(multiprocessing.process.BaseProcess))
    hints(nothing)
    assert before == (dict(vars(subprocess.Popen)), dict(vars(multiprocessing.process.BaseProcess)))
    assert "subprocess" in sys.modules
