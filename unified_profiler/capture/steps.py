"""When every step began and ended, recorded or not: a few bytes and well below a microsecond per step."""

from __future__ import annotations

from array import array
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
    """Start, end and phase of each finished step, in order."""

    def __init__(self) -> None:
        self.starts = array("q")
        self.ends = array("q")
        self._phases: list[Phase] = []

    def __len__(self) -> int:
        return len(self.ends)

    def add(self, start_ns: int, end_ns: int, phase: Phase) -> None:
        """Note a finished step."""
        self.starts.append(start_ns)
        self.ends.append(end_ns)
        self._phases.append(phase)

    def to_table(self, rank: int) -> pa.Table:
        """Return all steps as a table."""
        rows = len(self)
        columns = [
            pa.array([rank] * rows, pa.int32()),
            pa.array(range(rows), pa.int32()),
            pa.array(self.starts, pa.int64()),
            pa.array(self.ends, pa.int64()),
            pa.array([phase.value for phase in self._phases], pa.string()),
        ]
        return pa.table(columns, schema=STEP_SCHEMA)

    def overhead(self) -> Overhead:
        """Compare recorded steps with unrecorded ones; the very first step is left out where others tell."""
        times: dict[Phase, list[int]] = {phase: [] for phase in Phase}
        for start, end, phase in zip(self.starts, self.ends, self._phases, strict=True):
            times[phase].append(end - start)
        idle = times[Phase.IDLE]
        if len(idle) > 1 and self._phases[0] is Phase.IDLE:
            idle = idle[1:]
        return Overhead(unrecorded_step_ns=_median(idle), recorded_step_ns=_median(times[Phase.RECORD]))


def _median(values: list[int]) -> int | None:
    return int(median(values)) if values else None
