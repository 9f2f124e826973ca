"""Reads and changes the state of torch's profiler in the process and on the current thread.

None of this is public API of torch. The module has no state of its own.
"""

from __future__ import annotations

import gc
from typing import Any

import torch
import torch.autograd.profiler as autograd_profiler

from unified_profiler.errors import NativeProfilerError


def is_recording_thread() -> bool:
    """Return whether a torch profiler of any kind records this thread."""
    return bool(torch.autograd._profiler_enabled())


def is_active() -> bool:
    """Return whether a torch profiler records on this thread or, as far as torch reports it, on any thread."""
    return bool(autograd_profiler._is_profiler_enabled or is_recording_thread())


def unfinished_profiles() -> list[Any]:
    """Return the profilers that were prepared and not stopped since, which torch itself does not report.

    A profiler with `acc_events` is missing from its second cycle on: it still has the results of the first.
    """
    profile = autograd_profiler.profile
    states = [(candidate, vars(candidate)) for candidate in gc.get_referrers(profile) if type(candidate) is profile]
    return [candidate for candidate, state in states if state.get("entered") and state.get("kineto_results") is None]


def is_within_backward() -> bool:
    """Return whether this thread is in a backward pass; at its end, autograd restores the initial profiler state."""
    return bool(getattr(torch._C, "_current_graph_task_id", lambda: -1)() != -1)


def refuse_within_backward(verb: str) -> None:
    """Check that a profiler can start or stop now.

    Raises:
        NativeProfilerError: Autograd would restore the earlier state after the backward pass.
    """
    if is_within_backward():
        msg = f"torch's profiler cannot {verb} within a backward pass. Call `step()` after it, not in an autograd hook."
        raise NativeProfilerError(msg)


def drop_thread_state() -> None:
    """Stop recording this thread without affecting Kineto's session; no other function of torch does only that."""
    if is_recording_thread():
        end_open_ranges()
        torch.autograd._disable_profiler_legacy(torch._C._autograd._ProfilerDisableOptions(True, False))


def end_open_ranges() -> None:
    """End the `record_function` ranges that are still open, such as an optimizer's when its hook ends a step.

    A range that is open when recording ends keeps a pointer into the memory of that recording. If it ends during the
    next recording, torch writes through the pointer and the process crashes sooner or later. torch ignores the end of
    a range that was ended here.
    """
    record_function = autograd_profiler.record_function
    for candidate in gc.get_referrers(record_function):
        if isinstance(candidate, record_function) and candidate.record is not None:
            torch.ops.profiler._record_function_exit._RecordFunction(candidate.record)
