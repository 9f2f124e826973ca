"""Records the scheduled window of a script, and the opening window in case the script ends before the former."""

from __future__ import annotations

from collections.abc import Callable

from unified_profiler.launch.anchor import Recount
from unified_profiler.launch.launched_profiler import LaunchedProfiler
from unified_profiler.launch.opening import LEAN, OpeningWindow
from unified_profiler.launch.step_contents import has_events
from unified_profiler.model.schema import Layer
from unified_profiler.model.trace import Trace
from unified_profiler.schedule import Phase, Schedule

EVALUATION = "evaluation"
"""The region of a trainer's evaluation between training steps."""
_MAX_RESTARTS = 3
"""Maximum number of recordings discarded because another source ends steps: in some scripts it changes repeatedly."""


class Windows:
    """The scheduled profiler and the opening window, only one of which records at a time."""

    def __init__(
        self,
        profiler: LaunchedProfiler,
        plan: Schedule,
        opening: OpeningWindow,
        first_step: Callable[[int | None], int | None] = lambda _end_ns: None,
    ) -> None:
        """Create both windows.

        Args:
            profiler: Records the scheduled window.
            plan: Its schedule.
            opening: The opening window.
            first_step: Returns when the first step began, given its end if it has ended; None if that is not known.
        """
        self._first_step = first_step
        self._profiler = profiler
        self._plan = plan
        self._opening = opening
        self._begun = False
        self._ended = False
        self._why_ended = ""
        self._opening_ran = False
        self._restarts = 0
        self._held_back = 0
        self._evaluations = 0

    def begin(self) -> None:
        """Start both windows, once the first framework is imported."""
        if self._begun:
            return
        self._begun = True
        self._profiler.start()
        if self._plan.at(0).phase is Phase.IDLE:
            self._opening.start()
            self._mark_phase()

    def step(self) -> None:
        """End a step in the open window; the opening window ends with its first step."""
        if self._ended:
            return
        self.begin()
        if not self._profiler.current_step:
            self._begin_first_step()
        self._opening.end_step()
        self._profiler.step()
        self._mark_phase()

    def recount(self, recount: Recount) -> None:
        """Recount the steps, or add steps that ended unnoticed; the recording of wrong steps is discarded."""
        if self._ended:
            return
        self.begin()
        if not recount.keep:
            self._held_back = len(recount.ends) if recount.held_back else 0
            self._begin_first_step(*recount.ends[:1])
        if recount.ends:
            self._opening.end_step()
        if recount.keep and not self._may_restart():
            self._profiler.step()
        else:
            self._profiler.recount(recount.ends, keep=self._profiler.current_step if recount.keep else 0)
        self._mark_phase()

    def begin_evaluation(self) -> None:
        """Begin the region of an evaluation, which may contain another one."""
        if self._begun and not self._ended:
            self._evaluations += 1
            self._profiler.region_begin(EVALUATION)

    def end_evaluation(self) -> None:
        """End the region; the following training step begins now, not at the end of the previous one."""
        if self._evaluations and not self._ended:
            self._evaluations -= 1
            self._profiler.region_end(EVALUATION)
            if self._profiler.current_step:
                self._profiler.begin_step()

    def _begin_first_step(self, end_ns: int | None = None) -> None:
        start_ns = self._first_step(end_ns)
        if start_ns is not None:
            self._opening.begin_first_step(start_ns)
            self._profiler.begin_first_step(start_ns)

    def _may_restart(self) -> bool:
        """Return whether another recording may be discarded; if none is in progress, nothing is lost."""
        if self._profiler.phase is not Phase.RECORD:
            return True
        self._restarts += 1
        return self._restarts <= _MAX_RESTARTS

    def _mark_phase(self) -> None:
        """Mark steps that the opening window records as warm-up: they are recorded, but discarded."""
        if self._opening.running != self._opening_ran:
            self._opening_ran = self._opening.running
            self._profiler.mark_phase(Phase.WARMUP if self._opening_ran else self._profiler.phase)

    def end(self, why: str = "") -> None:
        """Stop recording; the script may continue."""
        self._opening.stop()
        self._why_ended = self._why_ended or why
        if self._begun and not self._ended:
            self._ended = True
            self._profiler.stop()

    def finish(self, *, failed: bool = False) -> bool:
        """Stop and write everything; return whether the opening window replaces the scheduled one.

        Args:
            failed: Whether the script failed: nothing is written then if no step ended and no operator was recorded.
        """
        try:
            if failed and not self._begun:
                return False
            if not self._begun:  # no framework was imported, so an opening window would be empty
                self._begun = True
                self._profiler.start()
            if not self._profiler.current_step:
                self._begin_first_step()
            self.end()
            if self._has_recorded_step():
                return False
            replacement = self._opening.trace
            if failed and self._is_empty(replacement):
                self._profiler.discard()
                return False
            if replacement is not None:
                hints = (*replacement.info.hints, " ".join(self._reasons(failed=failed)))
                self._profiler.add_trace(
                    Trace(replacement.events, replacement.info.model_copy(update={"hints": hints}))
                )
            elif self._profiler.current_step and not self._why_ended:
                self._profiler.add_hints([f"{self._ended_early()}. {self._advice()}"])
            return replacement is not None
        finally:
            self._opening.remove()

    def _is_empty(self, opening: Trace | None) -> bool:
        """Return whether no step ended, no operator was recorded, and nothing went wrong in doing so."""
        if self._profiler.current_step or self._profiler.failures or self._opening.failures:
            return False
        traces = (*self._profiler.run.traces, *((opening,) if opening is not None else ()))
        return not any(has_events(trace, Layer.FRAMEWORK.value) for trace in traces)

    def _has_recorded_step(self) -> bool:
        steps = self._profiler.run.steps
        return steps is not None and Phase.RECORD.value in steps.column("phase").to_pylist()

    def _reasons(self, *, failed: bool) -> list[str]:
        """Explain why this is not the scheduled window, and what is missing in it."""
        reasons = [self._why_ended or self._why_unscheduled(failed=failed)]
        if self._opening.limited:
            reasons.append(
                f"It was cut off after {self._opening.limit_seconds:g} s without the end of a step: later work is "
                "missing. Give a larger --opening-limit."
            )
        left_out = [name for name in LEAN if getattr(self._profiler.settings, name)]
        if left_out:
            reasons.append(
                f"It was recorded without {', '.join(left_out)}: give --wait 0 --warmup 0 to record with these options "
                "from the import of the framework on."
            )
        return reasons

    def _why_unscheduled(self, *, failed: bool) -> str:
        if not self._profiler.current_step and failed:
            return (
                "The script failed before a step ended, so this is the recording from the import of the framework on."
            )
        if not self._profiler.current_step:
            return (
                "No end of a step was seen, so this is the recording from the import of the framework on. "
                "Choose what ends a step with --step-signal."
            )
        covered = f"step {self._held_back - 1}" if self._held_back else "the first step"
        return (
            f"{self._ended_early()}; so this is the recording from the import of the framework to the end of "
            f"{covered}. {self._advice()}"
        )

    def _ended_early(self) -> str:
        count = self._profiler.current_step
        return f"The script ended after {count} step{'s'[: count > 1]}, before one was to be recorded"

    def _advice(self) -> str:
        """Return the options that would record a step."""
        signal = self._profiler.step_signal
        if not self._held_back or signal is None:
            return "Give a smaller --wait, --warmup or --skip-first."
        return (
            f"{self._held_back} of them passed before it was clear what ends a step: give --step-signal {signal.name} "
            "to begin the schedule with the first one."
        )
