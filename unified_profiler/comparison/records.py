"""What a diff consists of: frozen records, printed as JSON as they are."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from unified_profiler.model.records import Record
from unified_profiler.model.statements import Statement

RowKind: TypeAlias = Literal["total", "group", "row", "part"]


class Measured(Record):
    """One side of a row. Times are of one step: the median over the steps, and the quartiles."""

    call_count: float
    """Calls in a step, on average."""
    time_ns: float
    low_ns: float
    high_ns: float
    total_ns: int
    """Over all recorded steps. The totals of the rows add up to that of the side."""
    mean_ns: float | None = None
    """Mean of the calls in steps, each with all that is inside it; None where no API calls are compared."""
    flops: float | None = None
    """Floating-point operations in a step, computed from shapes; None where they are not known."""
    flops_per_s: float | None = None
    """Achieved: by the calls whose operations are known, in the time of these calls with all that is inside them."""


class DiffRow(Record):
    """Something that ran on one side or on both."""

    name: str | None
    """None for what has no name of the sort that is compared by."""
    kind: RowKind = "row"
    direction: str | None = None
    baseline: Measured | None = None
    candidate: Measured | None = None
    difference_ns: float
    """Time of a step, candidate less baseline."""
    ratio: float | None = None
    """Time of a step, candidate over baseline; None where one of them is missing."""
    mean_ratio: float | None = None
    """Mean time of a call, candidate over baseline; None where one of them is missing or no API calls are compared."""
    difference_share: float | None = None
    """Part of the sum of the differences of all rows, up and down; negative where the candidate takes less. That of a
    group or of the total is the sum of those of its rows, and at most 1; parts of rows have none."""
    same_calls: bool | None = None
    """Whether both sides call it equally often in a step; None where one of them is missing."""
    differs: bool = False
    """Whether the difference is larger than the threshold and than the noise."""
    rows: tuple[DiffRow, ...] = ()
    """What the row consists of."""


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
    """What recording cost, by the run's own step times; None where these do not show it."""
    total_ns: int = 0
    """Over all recorded steps."""
    outside_steps_ns: int = 0
    """What ran outside of any step: in no row."""
    unnamed_share: float = 0.0
    """Part of the time of operators that has no name of the sort that is compared by."""
    unmatched_share: float = 0.0
    """Part of the time of operators in rows that the other side does not have."""
    thread_count: int = 0
    """Threads on which operators ran."""
    device_ns: int = 0
    """Work of accelerators, over all recorded steps."""


class DiffRecord(Record):
    """Two runs, set side by side."""

    by: str
    threshold: float
    time: Literal["host", "device", "wall"]
    """What the times are: self time of operators on the host, work of accelerators, or wall time."""
    across_frameworks: bool
    baseline: Side
    candidate: Side
    drift_ratio: float | None = None
    """What most rows of two runs of one framework show, where a slower machine may explain it."""
    notices: tuple[Statement, ...] = ()
    total: DiffRow
    rows: tuple[DiffRow, ...]
