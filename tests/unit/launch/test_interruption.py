"""SIGTERM and delayed calls, held back while the profiler is at work."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from unified_profiler.launch.interruption import TERMINATED, Interruption

WAIT_SECONDS = 600.0


def _spin_until(event: threading.Event) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not event.is_set():
        assert time.monotonic() < deadline


def test_sigterm_becomes_a_system_exit() -> None:
    with Interruption() as interruption, pytest.raises(SystemExit) as caught:
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == TERMINATED == 143
    assert interruption.terminated


def test_sigterm_waits_for_the_end_of_the_work() -> None:
    done = []

    def work(interruption: Interruption) -> None:
        with interruption.held():
            signal.raise_signal(signal.SIGTERM)
            with interruption.held():
                done.append("nested")
            done.append("after")

    with Interruption() as interruption, pytest.raises(SystemExit):
        work(interruption)
    assert done == ["nested", "after"]


def test_the_handler_that_was_there_is_left_alone() -> None:
    def own(_signal: int, _frame: object) -> None: ...

    before = signal.signal(signal.SIGTERM, own)
    try:
        with Interruption():
            assert signal.getsignal(signal.SIGTERM) is own
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_handler_installed_meanwhile_stays() -> None:
    with Interruption():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_all_handlers_are_as_before_afterwards() -> None:
    before = [signal.getsignal(which) for which in signal.Signals]
    with Interruption():
        assert [signal.getsignal(which) for which in signal.Signals] != before
    assert [signal.getsignal(which) for which in signal.Signals] == before


def test_a_later_call_comes_on_the_main_thread() -> None:
    called, threads = threading.Event(), []

    def function() -> None:
        threads.append(threading.get_ident())
        called.set()

    with Interruption() as interruption:
        interruption.call_later(0.01, function)
        _spin_until(called)
    assert threads == [threading.get_ident()]


def test_a_later_call_waits_for_the_end_of_the_work() -> None:
    order: list[str] = []
    with Interruption() as interruption:
        with interruption.held():
            signal.raise_signal(signal.SIGURG)  # nothing was asked for: nothing happens
            interruption.call_later(WAIT_SECONDS, lambda: order.append("call"))
            interruption._ring()  # what the timer does when its time has come
            order.append("work")
        assert order == ["work", "call"]


def test_a_cancelled_call_never_comes() -> None:
    called: list[int] = []
    with Interruption() as interruption:
        interruption.call_later(WAIT_SECONDS, lambda: called.append(1))
        interruption.cancel()
        interruption._ring()
    assert not called


CHILD = """
import os, signal, sys
from unified_profiler.launch.interruption import Interruption
with Interruption():
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        os.write(tell, b"x")
        while True:
            signal.pause()
    os.read(ready, 1)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_dies_of_sigterm_as_ever() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=600)
    assert done.stdout == "-15\n", done.stderr
