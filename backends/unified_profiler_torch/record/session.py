"""NativeSession: torch's profiler while one recorder holds it, and how it is let go without harm to the process.

Kineto has one session per process, and whoever prepares a profiler takes it from whoever had it. Operators are
collected in a state of the thread that started recording, which only that thread can remove. Ending a session that is
gone, or somebody else's, is a segmentation fault. So while a session is held, the functions of torch through which
profilers begin are watched: a profiler of the program gets what it asks for, and the recording it displaces is lost.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch
import torch.autograd.profiler as autograd_profiler
import torch.autograd.profiler_legacy as legacy_profiler
import torch.profiler
from torch.optim.optimizer import register_optimizer_step_post_hook

from unified_profiler.errors import BackendBusyError, NativeProfilerError
from unified_profiler.spi.patching import Undo, replace
from unified_profiler_torch.record.session_state import (
    drop_thread_state,
    end_open_ranges,
    is_active,
    is_recording_here,
    is_within_backward,
    refuse_within_backward,
    unfinished_profiles,
)

_BUSY = (
    "A torch profiler is already active in this process, or warming up, and torch allows one at a time. Stop it before "
    "this one records, or leave torch out with `backend=`."
)
_DISPLACED = (
    "Another torch profiler began while this one recorded (torch.profiler.profile, torch.autograd.profiler.profile, "
    "emit_nvtx), and torch allows one at a time. The other one has what it recorded; the operators of this cycle are "
    "lost. Use one profiler in a step, or leave torch out with `backend=`."
)
_WRONG_THREAD = (
    "torch records the thread that started its profiler, here {started!r}, and only that thread can stop it, but this "
    "is {current!r}. The operators of this cycle are lost. Call start(), step() and stop() of the Profiler on the "
    "thread that trains."
)
_GONE = (
    "torch's profiler was stopped by somebody else before this recording ended, and what it had recorded is lost. "
    "Remove calls that stop a torch profiler from the recorded steps, unless they stop one that was started there."
)

_lock = threading.RLock()
"""Held while a profiler begins or ends, so that what was checked is still true when torch acts on it."""
_held: list[NativeSession] = []
"""Sessions that are prepared, recording, or left behind on another thread. Process-wide, as torch's profiler is."""
_unwatch: list[Undo] = []
_own_profiles: weakref.WeakSet[Any] = weakref.WeakSet()


class NativeSession:
    """One recording with torch's profiler."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """Take the arguments of `torch.profiler.profile`."""
        self._arguments = arguments
        self._profile: Any = None
        self._all_threads = False
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._displaced = False
        self._left_behind: Any = None
        self._results: Any = None

    def prepare(self) -> None:
        """Have Kineto prepare a session.

        Raises:
            BackendBusyError: Another torch profiler records or warms up.
        """
        with _lock:
            end_left_behind()
            if is_active() or any(profile not in _own_profiles for profile in unfinished_profiles()):
                raise BackendBusyError(_BUSY)
            self._profile = torch.profiler.profile(**self._arguments)
            self._profile.prepare_trace()
            _own_profiles.add(self._profile.profiler)
            self._displaced = False
            self._hold()

    def start(self) -> None:
        """Begin to record the operators of this thread.

        Raises:
            BackendBusyError: Another torch profiler began since this one was prepared.
        """
        with _lock:
            if is_active():
                raise BackendBusyError(_BUSY)
            if self._displaced:
                self.prepare()
            try:
                self._profile.start_trace()
                self._all_threads = not is_recording_here()  # an option of torch's, by which no thread is the one
            finally:
                if self._is_enabled():
                    self._thread = threading.current_thread()
                    atexit.register(self._end_at_exit)

    def stop(self) -> Any:
        """End recording and return Kineto's results.

        Raises:
            BackendBusyError: Another torch profiler took the session.
            NativeProfilerError: This is not the thread that started it, or somebody else stopped it.
        """
        with _lock:
            if self._results is None:
                self._check()
                self._results = self._end()
        if not self._results.trace_start_ns():  # empty results cannot be saved: the process would die
            raise NativeProfilerError(_GONE)
        return self._results

    def discard(self) -> None:
        """Let go of the session, in any state. What cannot be ended now is left for its thread to end later."""
        with _lock:
            if self not in _held:
                return
            if self._thread is None:
                self._leave_warm_up()
            elif self._is_here() and not is_within_backward():
                self._abandon()
            elif self._thread.is_alive():
                self._leave_behind()
                return
            else:
                self._outlive_thread()
            self._release()

    def _check(self) -> None:
        if self._displaced:
            raise BackendBusyError(_DISPLACED)
        if self._thread is not None and not self._is_here():
            names = {"started": self._thread.name, "current": threading.current_thread().name}
            raise NativeProfilerError(_WRONG_THREAD.format(**names))
        refuse_within_backward("end recording")
        if not self._is_enabled():
            raise NativeProfilerError(_GONE)

    def _is_here(self) -> bool:
        return self._all_threads or self._thread is threading.current_thread()

    def _is_enabled(self) -> bool:
        return self._all_threads or is_recording_here()

    def _end(self) -> Any:
        end_open_ranges()
        self._profile.stop_trace()
        self._release()
        return self._profile.profiler.kineto_results

    def _abandon(self) -> None:
        """End what is left of it on this thread, without touching a session of Kineto that is somebody else's."""
        if self._displaced:
            drop_thread_state()
            return
        if self._is_enabled():
            with suppress(Exception):
                self._end()
        with suppress(Exception):
            if self in _held and self._is_enabled():  # what `stop_trace` comes down to, where it fails
                self._profile.profiler.__exit__(None, None, None)
        autograd_profiler._set_is_profiler_enabled(False)

    def _leave_warm_up(self) -> None:
        if not self._displaced and not is_active():
            with suppress(Exception):  # the only way out of warm-up that torch has
                self._profile.start_trace()
                self._profile.stop_trace()

    def _leave_behind(self) -> None:
        """Have the thread that records end it, as soon as it comes by: at an optimizer's step, or in a recorder."""
        if self._left_behind is None:
            self._left_behind = register_optimizer_step_post_hook(_after_optimizer_step)
            if not self._displaced:
                autograd_profiler._set_is_profiler_enabled(False)

    def _outlive_thread(self) -> None:
        """Have torch forget what it keeps outside the thread that records, which would kill the process at its end."""
        if not self._displaced:
            if not is_recording_here():
                with suppress(Exception):
                    torch.autograd._disable_profiler()
            autograd_profiler._set_is_profiler_enabled(False)

    def _give_way(self) -> None:
        """Make room for a profiler of the program, which begins on this thread or prepares on any."""
        if self._thread is not None and self._is_here():
            self._abandon()
            self._release()
        self._displaced = True

    def _end_at_exit(self) -> None:
        """End recording before the interpreter does, which kills the process; a later `stop` still has the results."""
        if os.getpid() != self._process:
            return
        with _lock:
            if not self._is_here():
                self._outlive_thread()
                return
            with suppress(Exception):
                if self._left_behind is None:
                    self._check()
                    self._results = self._end()
            self.discard()

    def _hold(self) -> None:
        if not _held:
            _watch()
        if self not in _held:
            _held.append(self)

    def _release(self) -> None:
        if self in _held:
            _held.remove(self)
        if self._left_behind is not None:
            self._left_behind.remove()
        atexit.unregister(self._end_at_exit)
        if not _held:
            while _unwatch:
                _unwatch.pop()()


def end_left_behind() -> None:
    """End what this thread still records for recorders that could not end it when they were let go of."""
    if not _held or is_within_backward():
        return
    for session in _held.copy():
        thread = session._thread
        if session._left_behind is not None and thread is not None and (session._is_here() or not thread.is_alive()):
            session.discard()


def _after_optimizer_step(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
    end_left_behind()


_after_optimizer_step.__dict__["_torchdynamo_disable"] = True  # a compiled step() calls it, but does not trace it


def _watch() -> None:
    """Have everything through which profilers begin call the sessions that are held first."""
    for owner, name, give_way in (
        (autograd_profiler, "_prepare_profiler", _before_prepare),
        (autograd_profiler, "_enable_profiler", _before_enable),
        (legacy_profiler, "_enable_profiler_legacy", _before_legacy),
    ):
        _unwatch.append(replace(owner, name, _after(give_way, vars(owner)[name])))


def _after(give_way: Callable[[], None], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _lock:
            give_way()
            return function(*args, **kwargs)

    return call


def _before_prepare() -> None:
    for session in _held.copy():
        session._give_way()


def _before_legacy() -> None:
    """A thread has one profiler, of whichever kind; torch would raise in the program."""
    for session in _held.copy():
        if session._thread is threading.current_thread() and not session._all_threads:
            session._give_way()


def _before_enable() -> None:
    active = autograd_profiler._is_profiler_enabled  # set by whoever is about to begin
    _before_legacy()
    autograd_profiler._set_is_profiler_enabled(active)
