"""What torch's profiler does now, in the process and on this thread, and what can be done to it from outside.

None of it is public in torch. Nothing is kept here.
"""

from __future__ import annotations

import gc
from typing import Any

import torch
import torch.autograd.profiler as autograd_profiler

from unified_profiler.errors import NativeProfilerError


def is_recording_here() -> bool:
    """Say whether a torch profiler, of whichever kind, records this thread."""
    return bool(torch.autograd._profiler_enabled())


def is_active() -> bool:
    """Say whether a torch profiler records, on this thread or, as far as torch tells, on any."""
    return bool(autograd_profiler._is_profiler_enabled or is_recording_here())


def unfinished_profiles() -> list[Any]:
    """Return the profilers that were prepared and not stopped since, which torch itself does not tell.

    One with `acc_events` is not among them from its second cycle on: it still has the results of the first.
    """
    kind = autograd_profiler.profile
    profiles = [candidate for candidate in gc.get_referrers(kind) if type(candidate) is kind]
    return [
        profile for profile in profiles if vars(profile).get("entered") and vars(profile).get("kineto_results") is None
    ]


def is_within_backward() -> bool:
    """Say whether this thread is in a backward pass: at its end, autograd puts back the profiler it began with."""
    return bool(getattr(torch._C, "_current_graph_task_id", lambda: -1)() != -1)


def refuse_within_backward(verb: str) -> None:
    """Check that a profiler can begin or end now.

    Raises:
        NativeProfilerError: It would be put back to what it was.
    """
    if is_within_backward():
        msg = (
            f"torch's profiler cannot {verb} within a backward pass. Call `step()` after it, not in a hook that "
            "autograd calls."
        )
        raise NativeProfilerError(msg)


def drop_thread_state() -> None:
    """Stop this thread from recording and leave Kineto alone: of all that torch has only this does."""
    if is_recording_here():
        end_open_ranges()
        torch.autograd._disable_profiler_legacy(torch._C._autograd._ProfilerDisableOptions(True, False))


def end_open_ranges() -> None:
    """End the `record_function` ranges that are still open, such as the optimizer's when a hook of it ends a step.

    A range that is open when recording ends keeps a pointer into the memory of this recording. If it ends during the
    next one, torch writes through that pointer, and the process dies sooner or later. Ended here it is left alone by
    torch when its own end comes.
    """
    kind = autograd_profiler.record_function
    for candidate in gc.get_referrers(kind):
        if isinstance(candidate, kind) and candidate.record is not None:
            torch.ops.profiler._record_function_exit._RecordFunction(candidate.record)
