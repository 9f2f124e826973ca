"""When every step began and ended, recorded or not: a few bytes and well below a microsecond per step."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from statistics import median

import pyarrow as pa

from unified_profiler.model.records import Overhead
from unified_profiler.schedule import Phase

STEP_SCHEMA = pa.schema(
    [
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("start_ns", pa.int64(), nullable=False),
        pa.field("end_ns", pa.int64(), nullable=False),
        pa.field("phase", pa.string(), nullable=False),
    ]
)


class StepLog:
    """Start, end and phase of each step, in order.

    A step begins where the one before it ended and is in the same phase, unless `begin` says otherwise: so nearly
    all steps of a long training are one number.
    """

    def __init__(self) -> None:
        self.ends = array("q")
        """When each finished step ended; appending to it ends the current step."""
        self._begun: dict[int, tuple[int, Phase]] = {}

    def __len__(self) -> int:
        """Return the number of finished steps, which is the number of the current step."""
        return len(self.ends)

    def begin(self, now_ns: int, phase: Phase) -> None:
        """Begin the current step anew, at the given moment and in the given phase."""
        self._begun[len(self.ends)] = now_ns, phase

    def start_of(self, step: int) -> int:
        """Return when a step began, finished or current."""
        return self._begun[step][0] if step in self._begun else self.ends[step - 1]

    def end_of(self, step: int) -> int:
        """Return when a finished step ended."""
        return self.ends[step]

    def to_table(self, rank: int) -> pa.Table:
        """Return all finished steps as a table."""
        rows = list(self._rows())
        columns = [
            pa.array([rank] * len(rows), pa.int32()),
            pa.array(range(len(rows)), pa.int32()),
            pa.array([start for start, _, _ in rows], pa.int64()),
            pa.array(self.ends, pa.int64()),
            pa.array([phase.value for _, _, phase in rows], pa.string()),
        ]
        return pa.table(columns, schema=STEP_SCHEMA)

    def overhead(self) -> Overhead:
        """Compare recorded steps with unrecorded ones; a first step, which builds things, counts only if alone."""
        times: dict[Phase, list[int]] = {phase: [] for phase in Phase}
        for start, end, phase in self._rows():
            times[phase].append(end - start)
        idle = times[Phase.IDLE]
        if len(idle) > 1 and self._begun[0][1] is Phase.IDLE:
            idle = idle[1:]
        return Overhead(unrecorded_step_ns=_median(idle), recorded_step_ns=_median(times[Phase.RECORD]))

    def _rows(self) -> Iterator[tuple[int, int, Phase]]:
        start, phase = 0, Phase.IDLE
        for step, end in enumerate(self.ends):
            start, phase = self._begun.get(step, (start, phase))
            yield start, end, phase
            start = end


def _median(values: list[int]) -> int | None:
    return int(median(values)) if values else None
