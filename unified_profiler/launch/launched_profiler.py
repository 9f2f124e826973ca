"""LaunchedProfiler: a Profiler whose steps are detected by a launcher, which may correct them later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unified_profiler.profiler import Profiler
from unified_profiler.schedule import Phase


class LaunchedProfiler(Profiler):
    """A Profiler with the additional methods of a launcher."""

    _calls_step = False

    def program_starts(self, now_ns: int) -> None:
        """Let the run begin now, before the profiler starts with the first framework that is imported."""
        self._delivery.program_started_ns = now_ns

    def program_ended(self, exit_code: int) -> None:
        """Keep the exit code of the program, which has ended."""
        self._delivery.exit_code = exit_code

    def discard(self) -> None:
        """Remove the run of a program that failed before anything was recorded."""
        self._delivery.discard()

    def is_of_program(self, error: Exception) -> bool:
        """Return whether this is an error of the program's own work, raised because a recorder waited for that work."""
        return error is self._execution.program_error

    def add_hints(self, hints: Iterable[str]) -> None:
        """Keep advice on how to get a better result."""
        for hint in hints:
            self._delivery.hint(hint)
        self._delivery.close(self._steps)

    def recount(self, ends: Sequence[int], *, keep: int = 0) -> None:
        """Replace the steps counted so far, once it is known what a step is.

        If recorded steps are replaced, their recording is discarded and the schedule starts over; else it continues.

        Args:
            ends: End of each replacing step, in nanoseconds since the Unix epoch.
            keep: Number of steps at the beginning that stay unchanged.
        """
        self._sequencer.recount(ends, keep=keep)

    def annotate_step(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes to the event of the current step, if it is being recorded."""
        if self.phase is Phase.RECORD:
            self._execution.annotate_step(attributes)

    def begin_first_step(self, start_ns: int) -> None:
        """Let the first step begin at this time: the time before is the start-up of the program."""
        self._steps.begin_first(start_ns)
        if (program := self._delivery.program_started_ns) is not None:
            self._delivery.start_up_ns = start_ns - program

    def begin_step(self) -> None:
        """Let the current step begin now: the time before belongs to no step."""
        if self.phase is Phase.RECORD:
            self._execution.synchronize()
        self._steps.begin(self._clock(), self.phase)

    def mark_phase(self, phase: Phase) -> None:
        """Set the phase of the steps from the current one on, which the opening window records."""
        self._steps.begin(self._steps.start_of(self.current_step), phase)
