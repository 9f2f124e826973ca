"""Logs start, end and phase of every step, recorded or not; it takes a few bytes and well below 1 us per step."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from unified_profiler.model.steps import phase_codes, step_table
from unified_profiler.schedule import Phase


class StepLog:
    """Start, end and phase of each step, in order.

    Unless `begin` was called for it, a step begins where the previous one ended and has the same phase. So nearly all
    steps of a long training take one number each.
    """

    def __init__(self) -> None:
        self.ends = array("q")
        """End of each finished step; appending to it ends the current step."""
        self.start_up_end: int | None = None
        """When the first step began, if the program started up before it."""
        self._begun_steps: list[int] = []
        self._begins: list[tuple[int, Phase]] = []

    def __len__(self) -> int:
        """Return the number of finished steps, which is the number of the current step."""
        return len(self.ends)

    def begin(self, now_ns: int, phase: Phase) -> None:
        """Set start and phase of the current step."""
        step = len(self.ends)
        if self._begun_steps and self._begun_steps[-1] == step:
            self._begins[-1] = now_ns, phase
            return
        self._begun_steps.append(step)
        self._begins.append((now_ns, phase))

    def begin_first(self, start_ns: int) -> None:
        """Move the start of the first step, before which the program started up."""
        if self._begun_steps[:1] == [0]:
            self.start_up_end = start_ns
            self._begins[0] = start_ns, self._begins[0][1]

    def recount(self, ends: Sequence[int], *, keep: int) -> None:
        """Replace all steps after the first `keep` by steps with the given ends.

        The new steps are idle if all replaced steps were, else warm-up, since something ran in some of them.
        """
        start = self.start_of(keep)
        index = max(bisect_left(self._begun_steps, keep + 1) - 1, 0)
        idle = all(phase is Phase.IDLE for _, phase in self._begins[index:])
        index = bisect_left(self._begun_steps, keep)
        del self.ends[keep:], self._begun_steps[index:], self._begins[index:]
        self.begin(start, Phase.IDLE if idle else Phase.WARMUP)
        self.ends.extend(ends)

    def start_of(self, step: int) -> int:
        """Return the start of a finished step or of the current one."""
        index = bisect_left(self._begun_steps, step)
        has_own_start = index < len(self._begun_steps) and self._begun_steps[index] == step
        return self._begins[index][0] if has_own_start else self.ends[step - 1]

    def end_of(self, step: int) -> int:
        """Return the end of a finished step."""
        return self.ends[step]

    def to_table(self, rank: int, *, since: int = 0) -> pa.Table:
        """Return the finished steps from `since` on as a table."""
        end_ns = np.array(self.ends[since:], np.int64)
        start_ns = np.concatenate([[self.start_of(since)], end_ns[:-1]]) if len(end_ns) else end_ns
        first = max(bisect_left(self._begun_steps, since + 1) - 1, 0)
        row = np.array(self._begun_steps[first:], np.int64) - since
        begins = self._begins[first:]
        inside = (row >= 0) & (row < len(end_ns))
        start_ns[row[inside]] = np.array([start for start, _ in begins], np.int64)[inside]
        lengths = np.diff(np.clip([0, *row, len(end_ns)], 0, len(end_ns)))
        phase = np.repeat(phase_codes([Phase.IDLE, *(phase for _, phase in begins)]), lengths)
        return step_table(rank=rank, first=since, start_ns=start_ns, end_ns=end_ns, phase=phase)
