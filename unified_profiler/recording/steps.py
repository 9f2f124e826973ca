"""When every step began and ended, recorded or not: a few bytes and well below a microsecond per step."""

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

    A step begins where the one before it ended and is in the same phase, unless `begin` says otherwise: so nearly
    all steps of a long training are one number.
    """

    def __init__(self) -> None:
        self.ends = array("q")
        """When each finished step ended; appending to it ends the current step."""
        self._begun: list[int] = []
        self._begins: list[tuple[int, Phase]] = []

    def __len__(self) -> int:
        """Return the number of finished steps, which is the number of the current step."""
        return len(self.ends)

    def begin(self, now_ns: int, phase: Phase) -> None:
        """Begin the current step anew, at the given moment and in the given phase."""
        step = len(self.ends)
        if self._begun and self._begun[-1] == step:
            self._begins[-1] = now_ns, phase
            return
        self._begun.append(step)
        self._begins.append((now_ns, phase))

    def recount(self, ends: Sequence[int], *, keep: int) -> None:
        """Replace all steps but the first few by steps that ended at the given moments.

        They count as idle if all that they replace were, else as warm-up, since something ran in some of them.
        """
        start = self.start_of(keep)
        place = max(bisect_left(self._begun, keep + 1) - 1, 0)
        idle = all(phase is Phase.IDLE for _, phase in self._begins[place:])
        place = bisect_left(self._begun, keep)
        del self.ends[keep:], self._begun[place:], self._begins[place:]
        self.begin(start, Phase.IDLE if idle else Phase.WARMUP)
        self.ends.extend(ends)

    def start_of(self, step: int) -> int:
        """Return when a step began, finished or current."""
        place = bisect_left(self._begun, step)
        begins_anew = place < len(self._begun) and self._begun[place] == step
        return self._begins[place][0] if begins_anew else self.ends[step - 1]

    def end_of(self, step: int) -> int:
        """Return when a finished step ended."""
        return self.ends[step]

    def to_table(self, rank: int, *, since: int = 0) -> pa.Table:
        """Return finished steps as a table, from a given one on."""
        end_ns = np.array(self.ends[since:], np.int64)
        start_ns = np.concatenate([[self.start_of(since)], end_ns[:-1]]) if len(end_ns) else end_ns
        first = max(bisect_left(self._begun, since + 1) - 1, 0)
        row = np.array(self._begun[first:], np.int64) - since
        begins = self._begins[first:]
        inside = (row >= 0) & (row < len(end_ns))
        start_ns[row[inside]] = np.array([moment for moment, _ in begins], np.int64)[inside]
        lengths = np.diff(np.clip([0, *row, len(end_ns)], 0, len(end_ns)))
        phase = np.repeat(phase_codes([Phase.IDLE, *(phase for _, phase in begins)]), lengths)
        return step_table(rank=rank, first=since, start_ns=start_ns, end_ns=end_ns, phase=phase)
