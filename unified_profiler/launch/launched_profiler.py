"""LaunchedProfiler: a Profiler whose steps are found by a launcher, which may correct them later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unified_profiler.profiler import Profiler
from unified_profiler.schedule import Phase


class LaunchedProfiler(Profiler):
    """A Profiler with what only a launcher needs."""

    def is_of_program(self, error: Exception) -> bool:
        """Return whether an error of the program's own work was raised here, since a recorder waited for that work."""
        return error is self._execution.program_error

    def add_hints(self, hints: Iterable[str]) -> None:
        """Keep advice on what would make the result better."""
        for hint in hints:
            self._delivery.hint(hint)
        self._delivery.close(self._steps)

    def recount(self, ends: Sequence[int], *, keep: int = 0) -> None:
        """Replace what counted as steps so far, once it is known what a step is.

        Recorded steps among those replaced are thrown away, and the schedule begins anew; else it goes on.

        Args:
            ends: When each step ended that counts instead, in nanoseconds since the Unix epoch.
            keep: How many of the first steps stay as they are.
        """
        self._sequencer.recount(ends, keep=keep)

    def annotate_step(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes to the event of the current step, if it is being recorded."""
        if self.phase is Phase.RECORD:
            self._execution.annotate_step(attributes)

    def begin_step(self) -> None:
        """Have the current step begin now: what came before belongs to no step."""
        if self.phase is Phase.RECORD:
            self._execution.synchronize()
        self._steps.begin(self._clock(), self.phase)

    def mark_phase(self, phase: Phase) -> None:
        """Store another phase than planned for the steps from the current one on: the opening window records them."""
        self._steps.begin(self._steps.start_of(self.current_step), phase)
