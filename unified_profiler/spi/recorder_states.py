"""Defines the states of a recorder and converts errors of native profilers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from unified_profiler.errors import NativeProfilerError, UnifiedProfilerError, UsageError


class RecorderState(Enum):
    """The state of a recorder; each of its verbs is allowed once, in order."""

    NEW = "new"
    ARMED = "armed"
    RECORDING = "recording"
    DONE = "done"

    def expect(self, state: RecorderState, verb: str) -> None:
        """Check that a verb is allowed now.

        Raises:
            UsageError: The recorder is in a different state.
        """
        if self is not state:
            msg = f"`{verb}` is for a recorder that is {state.value}; this one is {self.value}. Make a new one."
            raise UsageError(msg)


@contextmanager
def native_errors(profiler: str, verb: str) -> Iterator[None]:
    """Convert errors of a native profiler in the block to NativeProfilerError; our own errors stay unchanged."""
    try:
        yield
    except UnifiedProfilerError:
        raise
    except Exception as error:
        msg = f"{profiler} failed to {verb}: {type(error).__name__}: {error}"
        raise NativeProfilerError(msg) from error
