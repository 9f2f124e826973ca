"""Adds a function mode to the mode stacks of the current thread and of threads started later.

Every thread has its own stack of modes.
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
    """Adds modes to threads as they start, through `threading.setprofile`."""

    def __init__(self) -> None:
        self._modes: list[TorchFunctionMode] = []
        self._previous: Any = None
        self._lock = threading.Lock()

    def add(self, mode: TorchFunctionMode) -> None:
        with self._lock:
            if not self._modes:
                self._previous = threading.getprofile()
                threading.setprofile(self._on_thread_start)
            self._modes.append(mode)

    def remove(self, mode: TorchFunctionMode) -> None:
        with self._lock:
            self._modes.remove(mode)
            if not self._modes and threading.getprofile() == self._on_thread_start:
                threading.setprofile(self._previous)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def _on_thread_start(self, frame: Any, event: Any, arg: Any) -> None:
        previous = self._previous
        sys.setprofile(previous)
        for mode in list(self._modes):
            _push(mode)
        if previous is not None:
            previous(frame, event, arg)


_new_threads = _NewThreads()


def push_mode(mode: TorchFunctionMode) -> Callable[[], None]:
    """Add a mode to this thread and to threads started later; return a function that removes it.

    It removes the mode only from this thread, and only when called on it. Elsewhere the mode stays until the thread
    ends, so a removed mode must have no effect.
    """
    thread, pid = threading.get_ident(), os.getpid()
    _push(mode)
    _new_threads.add(mode)

    def undo() -> None:
        if os.getpid() != pid:
            _new_threads.after_fork()
        _new_threads.remove(mode)
        if threading.get_ident() == thread:
            _remove(mode)

    return undo


def _push(mode: TorchFunctionMode) -> None:
    """Add a mode below all others: modes that a program enters and exits must be on top.

    The default device is also a mode, which must be the lowest.
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
    """Remove all modes from the stack of this thread and return them, lowest first."""
    stack = [torch._C._pop_torch_function_stack() for _ in range(torch._C._len_torch_function_stack())]
    return stack[::-1]
