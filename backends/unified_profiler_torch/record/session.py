"""Starts and stops torch's profiler for one recorder without crashing the process.

Kineto has one session per process, and a profiler that is prepared takes it from the previous one. Operators are
collected in a state of the thread that started recording, which only that thread can remove. Ending a session that is
gone, or belongs to another profiler, is a segmentation fault. So while a session is open, the torch functions that
start profilers are patched: a profiler of the program starts normally, and the recording it displaces is lost.
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
from unified_profiler.spi.patching import Undo, wrap
from unified_profiler_torch.record.session_state import (
    drop_thread_state,
    end_open_ranges,
    is_active,
    is_recording_thread,
    is_within_backward,
    refuse_within_backward,
    unfinished_profiles,
)
from unified_profiler_torch.record.without_compiler import call_without_compiler

_BUSY = (
    "A torch profiler is already active or warming up in this process, and torch allows one at a time. Stop it before "
    "this one records, or leave torch out with `backend=`."
)
_DISPLACED = (
    "Another torch profiler started while this one recorded (torch.profiler.profile, torch.autograd.profiler.profile, "
    "emit_nvtx), and torch allows one at a time. The other profiler has its results; the operators of this cycle are "
    "lost. Use one profiler in a step, or leave torch out with `backend=`."
)
_WRONG_THREAD = (
    "torch records the thread that started its profiler, here {started!r}, and only that thread can stop it, but this "
    "is {current!r}. The operators of this cycle are lost. Call start(), step() and stop() of the Profiler on the "
    "thread that trains."
)
_STOPPED_ELSEWHERE = (
    "torch's profiler was stopped by other code before this recording ended, and its operators are lost. Remove calls "
    "that stop a torch profiler from the recorded steps, unless they stop one that was started there."
)

_lock = threading.RLock()
"""Held while a profiler starts or stops, so that the checked state is still valid when torch acts on it."""
_open_sessions: list[NativeSession] = []
"""Sessions that are prepared, recording, or still to be ended by their thread. Process-wide, as torch's profiler is."""
_patches: list[Undo] = []
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
        self._deferred_end: Any = None
        self._results: Any = None

    def prepare(self) -> None:
        """Have Kineto prepare a session.

        Raises:
            BackendBusyError: Another torch profiler records or warms up.
        """
        with _lock:
            end_deferred_sessions()
            if is_active() or any(profile not in _own_profiles for profile in unfinished_profiles()):
                raise BackendBusyError(_BUSY)
            self._profile = torch.profiler.profile(**self._arguments)
            call_without_compiler(self._profile.prepare_trace)
            _own_profiles.add(self._profile.profiler)
            self._displaced = False
            if not _open_sessions:
                _patch_profilers()
            if self not in _open_sessions:
                _open_sessions.append(self)

    def start(self) -> None:
        """Start recording the operators of this thread.

        Raises:
            BackendBusyError: Another torch profiler started since this one was prepared.
        """
        with _lock:
            if is_active():
                raise BackendBusyError(_BUSY)
            if self._displaced:
                self.prepare()
            try:
                call_without_compiler(self._profile.start_trace)
                # an option of torch records all threads and has no state on this one
                self._all_threads = not is_recording_thread()
            finally:
                if self._is_recording():
                    self._thread = threading.current_thread()
                    atexit.register(self._end_at_exit)

    def stop(self) -> Any:
        """Stop recording and return Kineto's results.

        Raises:
            BackendBusyError: Another torch profiler took the session.
            NativeProfilerError: Another thread started it, or other code stopped it.
        """
        with _lock:
            if self._results is None:
                self._check_can_stop()
                self._results = self._end()
        if not self._results.trace_start_ns():  # saving empty results would crash the process
            raise NativeProfilerError(_STOPPED_ELSEWHERE)
        return self._results

    def discard(self) -> None:
        """Close the session in any state. A recording that cannot be ended now is ended later by its thread."""
        with _lock:
            if self not in _open_sessions:
                return
            if self._thread is None:
                self._end_warm_up()
            elif self._on_own_thread() and not is_within_backward():
                self._abandon()
            elif self._thread.is_alive():
                self._defer_end()
                return
            else:
                self._clear_process_state()
            self._close()

    def _check_can_stop(self) -> None:
        if self._displaced:
            raise BackendBusyError(_DISPLACED)
        if self._thread is not None and not self._on_own_thread():
            names = {"started": self._thread.name, "current": threading.current_thread().name}
            raise NativeProfilerError(_WRONG_THREAD.format(**names))
        refuse_within_backward("end recording")
        if not self._is_recording():
            raise NativeProfilerError(_STOPPED_ELSEWHERE)

    def _on_own_thread(self) -> bool:
        return self._all_threads or self._thread is threading.current_thread()

    def _is_recording(self) -> bool:
        return self._all_threads or is_recording_thread()

    def _end(self) -> Any:
        end_open_ranges()
        self._profile.stop_trace()
        self._close()
        return self._profile.profiler.kineto_results

    def _abandon(self) -> None:
        """End recording on this thread without touching a Kineto session that belongs to another profiler."""
        if self._displaced:
            drop_thread_state()
            return
        if self._is_recording():
            with suppress(Exception):
                self._end()
        with suppress(Exception):
            if self in _open_sessions and self._is_recording():  # `stop_trace` failed; this is its essential part
                self._profile.profiler.__exit__(None, None, None)
        autograd_profiler._set_is_profiler_enabled(False)

    def _end_warm_up(self) -> None:
        if not self._displaced and not is_active():
            with suppress(Exception):  # torch has no other way to end warm-up
                self._profile.start_trace()
                self._profile.stop_trace()

    def _defer_end(self) -> None:
        """Let the recording thread end the session at its next optimizer step or call of a recorder."""
        if self._deferred_end is None:
            self._deferred_end = register_optimizer_step_post_hook(_after_optimizer_step)
            if not self._displaced:
                autograd_profiler._set_is_profiler_enabled(False)

    def _clear_process_state(self) -> None:
        """Clear the state that torch keeps outside the recording thread, which would crash the process at exit."""
        if not self._displaced:
            if not is_recording_thread():
                with suppress(Exception):
                    torch.autograd._disable_profiler()
            autograd_profiler._set_is_profiler_enabled(False)

    def _displace(self) -> None:
        """Make way for a profiler of the program that starts on this thread or prepares on any."""
        if self._thread is not None and self._on_own_thread():
            self._abandon()
            self._close()
        self._displaced = True

    def _end_at_exit(self) -> None:
        """End recording before interpreter exit, which would crash; a later `stop` still returns the results."""
        if os.getpid() != self._process:
            return
        with _lock:
            if not self._on_own_thread():
                self._clear_process_state()
                return
            with suppress(Exception):
                if self._deferred_end is None:
                    self._check_can_stop()
                    self._results = self._end()
            self.discard()

    def _close(self) -> None:
        if self in _open_sessions:
            _open_sessions.remove(self)
        if self._deferred_end is not None:
            self._deferred_end.remove()
        atexit.unregister(self._end_at_exit)
        while _patches and not _open_sessions:
            _patches.pop()()


def end_deferred_sessions() -> None:
    """End the recordings on this thread, or on threads that are gone, whose recorders were discarded elsewhere."""
    if not _open_sessions or is_within_backward():
        return
    for session in _open_sessions.copy():
        thread = session._thread
        is_ours = session._on_own_thread() or (thread is not None and not thread.is_alive())
        if session._deferred_end is not None and is_ours:
            session.discard()


def _after_optimizer_step(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
    end_deferred_sessions()


_after_optimizer_step.__dict__["_torchdynamo_disable"] = True  # a compiled step() calls it, but does not trace it


def _patch_profilers() -> None:
    """Displace open sessions before a torch function starts another profiler."""
    for owner, name, displace in (
        (autograd_profiler, "_prepare_profiler", _displace_all),
        (autograd_profiler, "_enable_profiler", _displace_for_kineto),
        (legacy_profiler, "_enable_profiler_legacy", _displace_on_thread),
    ):
        _patches.append(wrap(owner, name, functools.partial(_call_first, displace)))


def _call_first(displace: Callable[[], None], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with _lock:
            displace()
            return function(*args, **kwargs)

    return call


def _displace_all() -> None:
    for session in _open_sessions.copy():
        session._displace()


def _displace_on_thread() -> None:
    """Displace the session of this thread: a thread has one profiler of any kind, and torch would raise."""
    for session in _open_sessions.copy():
        if session._thread is threading.current_thread() and not session._all_threads:
            session._displace()


def _displace_for_kineto() -> None:
    active = autograd_profiler._is_profiler_enabled  # set by the profiler that is about to start
    _displace_on_thread()
    autograd_profiler._set_is_profiler_enabled(active)
