"""Sequencer: follows the plan step by step and runs the commands of each transition.

`machine` decides which commands a transition needs, `execution` carries them out; this module keeps the state between
them: the current slot, whether the profiler runs, and how long nothing changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from unified_profiler.config import Settings
from unified_profiler.recording.execution import Destination, Execution
from unified_profiler.recording.faults import FaultLog
from unified_profiler.recording.machine import OUTSIDE, transition
from unified_profiler.recording.steps import StepLog
from unified_profiler.schedule import FOREVER, Always, CustomPlan, Phase, Plan, Slot
from unified_profiler.spi import Backend

_NO_STEP = (
    "Profiler.step() was never called, so everything counts as one step. "
    "Call it at the end of each iteration to see steps."
)


class Sequencer:
    """The state machine of one Profiler. Whatever fails or interrupts it, no recorder stays armed.

    Attributes:
        execution: Carries out the commands.
        running: Whether the profiler was started and not stopped since.
        slot: The slot of the current step.
        idle_until: No step before this one changes anything, so that ending it only appends its time.
    """

    def __init__(
        self,
        settings: Settings,
        plan: Plan,
        *,
        given: Sequence[Backend],
        clock: Callable[[], int],
        faults: FaultLog,
        delivery: Destination,
        steps: StepLog,
    ) -> None:
        delivers_parts = settings.output_dir is not None and not settings.operators
        self.execution = Execution(
            settings,
            given=given,
            clock=clock,
            faults=faults,
            delivery=delivery,
            steps=steps,
            on_full=self._flush_full_buffer if delivers_parts else None,
        )
        self.running = False
        self.slot = OUTSIDE
        self.idle_until = 0
        self._settings = settings
        self._plan = plan
        self._clock = clock
        self._faults = faults
        self._delivery = delivery
        self._steps = steps
        self._lock = threading.RLock()
        self._flushing = False
        self._started_at = 0
        self._origin = 0

    def start(self) -> None:
        """Begin to follow the plan at the current step."""
        with self._lock:
            self.running = True
            self._started_at = self._origin = len(self._steps)
            try:
                self._go_to(self._slot_of(self._origin))
            except BaseException:
                self.running = False
                raise
            self._raise_if_strict()

    def end_step(self) -> None:
        """End the current step now, when the work that it began is done, and go to the slot of the next."""
        if self.slot.phase is Phase.RECORD:
            self.execution.synchronize()
        now = self._clock()
        with self._lock:
            self._steps.ends.append(now)
            following = self._slot_of(len(self._steps))
            if following == self.slot and following.phase is Phase.RECORD:
                self.execution.mark_step()
                self._raise_if_strict()
            elif self.execution.busy or following.phase is not self.slot.phase:
                self._go_to(following)
                self._raise_if_strict()
            else:
                self.slot = following
                self.idle_until = len(self._steps) + self._plan.idle_from(len(self._steps) - self._origin) - 1

    def stop(self, *, interrupted: bool, finish: bool, advise: bool = True) -> None:
        """End the current cycle and deliver it.

        Args:
            interrupted: Whether an exception ended the recording, so that its last step is not complete.
            finish: Whether to make traces now of the cycles that were set aside.
            advise: Whether to log why nothing was recorded, or that there are no steps.
        """
        with self._lock:
            self.running, self.idle_until = False, 0
            try:
                if self.slot.phase is Phase.RECORD and not interrupted:
                    self.execution.synchronize()
            finally:
                self._go_to(OUTSIDE, complete=isinstance(self._plan, Always) and not interrupted)
                if advise and not interrupted and self._settings.operators:
                    self._advise()
                self._delivery.end_pending(finish=finish)
                self._delivery.close(self._steps)
            self._faults.raise_if_strict()

    def _advise(self) -> None:
        """Log what to change if the schedule took no effect."""
        count = len(self._steps) - self._started_at
        if self.execution.recorded:
            if not count:
                self._delivery.hint(_NO_STEP)
            return
        ended = "1 step has ended" if count == 1 else f"{count} steps have ended"
        if isinstance(self._plan, CustomPlan):
            plan, advice = "function returned Phase.RECORD for none of them", "Check it, or train for longer."
        else:
            plan = f"begins to record at step {self._first_recorded(count)}"
            advice = "Make its wait, warmup and skip_first shorter, or train for longer."
        if not count:
            ended, advice = "Profiler.step() was never called", "Call it at the end of each iteration."
        self._delivery.hint(f"Nothing was recorded: {ended}, and the schedule {plan}. {advice}")

    def _first_recorded(self, step: int) -> int:
        """Return the first step that is recorded, from this one on."""
        while self._plan.at(step).phase is not Phase.RECORD and step < FOREVER:
            step += max(self._plan.idle_from(step), 1)
        return step

    def recount(self, ends: Sequence[int], *, keep: int) -> None:
        """Replace all steps but the first few by steps that ended at the given times.

        If one of the replaced steps was recorded, the recording is discarded and the plan begins again; otherwise the
        plan continues.
        """
        with self._lock:
            index = min(len(ends), self._plan.idle_from(0))
            if self.slot.phase is Phase.RECORD or (self.execution.recorded and not keep):
                self.slot = OUTSIDE
                forget = self.execution.discard if keep else self.execution.forget
                forget()
            else:
                index = max(index, len(self._steps) - self._origin + bool(ends))
            self._steps.recount(ends, keep=keep)
            self._origin, self.idle_until = len(self._steps) - index, 0
            self._go_to(self._slot_of(len(self._steps)))
            self._raise_if_strict()

    def _flush_full_buffer(self, between_calls: bool) -> None:
        """Deliver the API calls in memory, on whichever thread filled the buffer, unless that is being done already."""
        with self._lock:
            if self.running and self.slot.phase is Phase.RECORD and not self._flushing:
                self._flushing = True
                try:
                    self.execution.deliver_part(between_calls=between_calls)
                finally:
                    self._flushing = False

    def _slot_of(self, step: int) -> Slot:
        try:
            return self._plan.at(step - self._origin)
        except Exception as error:  # noqa: BLE001  a user's function may raise anything; the loop goes on unrecorded
            self._faults.report("schedule", "compute the phase", error, step=step)
            return OUTSIDE

    def _go_to(self, following: Slot, *, complete: bool = True) -> None:
        """Run the commands that lead to the next slot; an interruption leaves nothing armed."""
        previous, self.slot = self.slot, following
        try:
            for command in transition(previous, following):
                self.execution.run(command, complete=complete, step_open=not self.running)
            self._steps.begin(self._clock(), following.phase)
            if following.phase is Phase.RECORD:
                self.execution.mark_step()
        except BaseException:
            self.slot = OUTSIDE
            self.execution.discard()
            raise

    def _raise_if_strict(self) -> None:
        """Raise the first failure in strict mode, with nothing armed."""
        try:
            self._faults.raise_if_strict()
        except Exception:
            self.slot, self.running = OUTSIDE, False
            self.execution.discard()
            self._delivery.end_pending(finish=True)
            raise
