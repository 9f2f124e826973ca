"""The frozen records of a diff, which are also its JSON output."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from unified_profiler.model.records import Record
from unified_profiler.model.statements import Statement

RowKind: TypeAlias = Literal["total", "group", "row", "part"]


class Measured(Record):
    """One side of a row. Times are per step: the median over the steps, and the quartiles."""

    call_count: float
    """Calls in a step, on average."""
    time_ns: float
    low_ns: float
    high_ns: float
    total_ns: int
    """Over all recorded steps. The totals of the rows add up to that of the side."""
    mean_ns: float | None = None
    """Mean total time of the calls in steps; None unless API calls are compared."""
    flops: float | None = None
    """Floating-point operations in a step, computed from shapes; None if unknown."""
    flops_per_s: float | None = None
    """Achieved by the calls whose operations are known, in the total time of these calls."""


class DiffRow(Record):
    """A row: an operator, region, module or API call that ran on one side or on both."""

    name: str | None
    """None for events without a name in the chosen grouping."""
    kind: RowKind = "row"
    direction: str | None = None
    baseline: Measured | None = None
    candidate: Measured | None = None
    difference_ns: float
    """Time of a step, candidate less baseline."""
    ratio: float | None = None
    """Time of a step, candidate over baseline; None if a side is missing."""
    mean_ratio: float | None = None
    """Mean time of a call, candidate over baseline; None if a side is missing or no API calls are compared."""
    difference_share: float | None = None
    """Share of the sum of the absolute differences of all rows; negative if the candidate takes less. A group or the
    total has the sum of its rows, at most 1; parts of rows have none."""
    same_calls: bool | None = None
    """Whether both sides call it equally often in a step; None if a side is missing."""
    differs: bool = False
    """Whether the difference is larger than the threshold and than the noise."""
    rows: tuple[DiffRow, ...] = ()
    """The rows or parts inside this row."""


class Side(Record):
    """One of the two runs, as a whole."""

    name: str
    frameworks: dict[str, str] = Field(default_factory=dict)
    ranks: tuple[int, ...] = ()
    step_count: int = 0
    """Recorded steps, of all ranks together."""
    step_ns: int | None = None
    """Wall time of a recorded step, median."""
    unrecorded_step_ns: int | None = None
    """Wall time of a step that was not recorded, median."""
    unrecorded_step_count: int = 0
    overhead_ratio: float | None = None
    """Ratio of recorded to unrecorded step times; None if it cannot be measured."""
    total_ns: int = 0
    """Over all recorded steps."""
    outside_steps_ns: int = 0
    """Time outside of steps, which is in no row."""
    unnamed_share: float = 0.0
    """Share of the operators' time without a name in the chosen grouping."""
    unmatched_share: float = 0.0
    """Share of the operators' time in rows that the other side does not have."""
    thread_count: int = 0
    """Threads on which operators ran."""
    device_ns: int = 0
    """Work of accelerators, over all recorded steps."""


class DiffRecord(Record):
    """The comparison of two runs."""

    by: str
    threshold: float
    time: Literal["host", "device", "wall"]
    """The compared time: self time of operators on the host, work of accelerators, or wall time."""
    across_frameworks: bool
    baseline: Side
    candidate: Side
    drift_ratio: float | None = None
    """The ratio of most rows of two runs of one framework, if a slower machine may explain it."""
    notices: tuple[Statement, ...] = ()
    total: DiffRow
    rows: tuple[DiffRow, ...]
