"""On which threads a function mode is on, and where it stands among the modes of the program.

Modes belong to threads. One that is put in here is on for the current thread and for those started from now on.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _NewThreads:
    """Puts modes in on threads as they start, by the hook that Python has for profilers of threads."""

    def __init__(self) -> None:
        self._modes: list[TorchFunctionMode] = []
        self._previous: Any = None
        self._lock = threading.Lock()

    def add(self, mode: TorchFunctionMode) -> None:
        with self._lock:
            if not self._modes:
                self._previous = threading.getprofile()
                threading.setprofile(self._begins)
            self._modes.append(mode)

    def remove(self, mode: TorchFunctionMode) -> None:
        with self._lock:
            self._modes.remove(mode)
            if not self._modes and threading.getprofile() == self._begins:
                threading.setprofile(self._previous)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def _begins(self, frame: Any, event: Any, arg: Any) -> None:
        previous = self._previous
        sys.setprofile(previous)
        for mode in list(self._modes):
            _push(mode)
        if previous is not None:
            previous(frame, event, arg)


_new_threads = _NewThreads()


def put_in(mode: TorchFunctionMode) -> Callable[[], None]:
    """Put a mode in on this thread and on those started from now on; return the undoing.

    On those other threads, and on this one if the undoing happens on another, the mode remains until the thread ends;
    it must then do nothing by itself.
    """
    home, pid = threading.get_ident(), os.getpid()
    _push(mode)
    _new_threads.add(mode)

    def undo() -> None:
        if os.getpid() != pid:
            _new_threads.after_fork()
        _new_threads.remove(mode)
        if threading.get_ident() == home:
            _remove(mode)

    return undo


def _push(mode: TorchFunctionMode) -> None:
    """Put a mode below all others: those that a program enters and leaves expect to be on top.

    The default device is a mode as well, which expects to be the lowest.
    """
    others, default = _pop_all(), getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    lowest = [other for other in others if other is default]
    for other in [*lowest, mode, *(other for other in others if other is not default)]:
        torch._C._push_on_torch_function_stack(other)


def _remove(mode: TorchFunctionMode) -> None:
    for other in _pop_all():
        if other is not mode:
            torch._C._push_on_torch_function_stack(other)


def _pop_all() -> list[Any]:
    """Take all modes off the stack of this thread; return them with the lowest first."""
    stack = [torch._C._pop_torch_function_stack() for _ in range(torch._C._len_torch_function_stack())]
    return stack[::-1]
