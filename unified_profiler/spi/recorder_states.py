"""The states of a recorder, and the conversion of native errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from unified_profiler.errors import NativeProfilerError, UnifiedProfilerError, UsageError


class RecorderState(Enum):
    """What a recorder has done last; each of its verbs is legal once, in order."""

    NEW = "new"
    ARMED = "armed"
    RECORDING = "recording"
    DONE = "done"

    def expect(self, state: RecorderState, verb: str) -> None:
        """Check that a verb is legal now.

        Raises:
            UsageError: The recorder is in another state than the verb needs.
        """
        if self is not state:
            msg = f"`{verb}` is for a recorder that is {state.value}; this one is {self.value}. Make a new one."
            raise UsageError(msg)


@contextmanager
def native_errors(profiler: str, verb: str) -> Iterator[None]:
    """Convert what a native profiler raises in the block to a NativeProfilerError; typed errors go on as they are."""
    try:
        yield
    except UnifiedProfilerError:
        raise
    except Exception as error:
        msg = f"{profiler} failed to {verb}: {type(error).__name__}: {error}"
        raise NativeProfilerError(msg) from error
