"""Records of a summary, written to summary.json without conversion."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from unified_profiler.model.records import OverheadUnclear, Record
from unified_profiler.model.statements import Statement


class RankSummary(Record):
    """Steps, times and process of one rank."""

    rank: int
    host: str = ""
    pid: int = 0
    python: str | None = None
    platform: str | None = None
    ended: bool = True
    """False if the process was killed or is still running."""
    step_count: int
    recorded_step_count: int
    cycle_count: int
    event_count: int
    unrecorded_step_ns: int | None = None
    unrecorded_step_count: int = 0
    recorded_step_ns: int | None = None
    overhead_ratio: float | None = None
    """Median recorded over median unrecorded step time; None if that does not show the cost of recording."""
    overhead_unclear: OverheadUnclear | None = "few_steps"
    """Reason why the cost is unclear."""
    steady_step: int | None = None
    """If step times were still falling: the step from which they no longer did."""
    start_up_ns: int | None = None
    """Time from the start of the script to its first step, if it is known."""
    failure_count: int = 0


class StepsSummary(Record):
    """The steps of all ranks; times are medians over the ranks."""

    count: int = 0
    recorded_count: int = 0
    unrecorded_step_ns: int | None = None
    unrecorded_count: int = 0
    """Number of steps behind `unrecorded_step_ns`."""
    recorded_step_ns: int | None = None
    overhead_ratio: float | None = None
    """Recorded over unrecorded step time; None if that does not show the cost of recording."""
    overhead_unclear: OverheadUnclear | None = "few_steps"
    """Most frequent reason among the ranks why the cost is unclear."""
    steady_step: int | None = None
    """If step times were still falling: the step from which they no longer did on any rank."""
    fastest_ns: int | None = None
    """Of the recorded steps."""
    slowest_ns: int | None = None
    start_up_ns: int | None = None
    """Time from the start of the script to its first step: the longest of the ranks."""


class StepParts(Record):
    """Wall time of all recorded steps and its parts on the host, which add up to it."""

    step_count: int = 0
    wall_ns: int = 0
    data_ns: int = 0
    """Loading data or waiting for it."""
    op_ns: int = 0
    collective_ns: int = 0
    copy_ns: int = 0
    compile_ns: int = 0
    uncovered_ns: int = 0


class DominatingStep(Record):
    """The step of a rank that took more than half of the rank's recorded time, and five times the median."""

    rank: int
    step: int
    share: float


class RegionSummary(Record):
    """The time of a region over all recorded steps."""

    name: str
    total_ns: int
    wall_share: float
    step_count: int


class CounterSummary(Record):
    """A hardware counter over all recorded time."""

    rank: int
    name: str
    device: str | None
    unit: str
    mean: float
    minimum: float
    maximum: float
    sample_count: int


class SummaryRecord(Record):
    """The key facts of a run."""

    schema_version: int = 1
    profiler_version: str
    run: str
    command: tuple[str, ...] = ()
    started_ns: int | None = None
    ended_ns: int | None = None
    duration_ns: int = 0
    frameworks: dict[str, str] = Field(default_factory=dict)
    world_size: int = 1
    event_count: int = 0
    ranks: tuple[RankSummary, ...] = ()
    steps: StepsSummary = StepsSummary()
    notices: tuple[Statement, ...] = ()
    """Warnings and hints, such as failures and missing ranks."""
    findings: tuple[Statement, ...] = ()
    """Sentences on where the time went."""
    ranks_verdict: tuple[Statement, ...] = ()
    """The verdict of `rank_table` on slow ranks; empty for a single rank."""
    devices_verdict: tuple[Statement, ...] = ()
    """The verdict of `device_table`: how long devices were idle and why; empty without a device."""
    devices: tuple[dict[str, Any], ...] = ()
    """Rows of `device_table().devices`."""
    step_parts: StepParts = StepParts()
    dominating_step: DominatingStep | None = None
    """If set, rows of `operators` and `categories` also have `step_self_cpu_ns`, and are sorted by it."""
    regions: tuple[RegionSummary, ...] = ()
    categories: tuple[dict[str, Any], ...] = ()
    """Rows of `op_table(by="category")`."""
    operators: tuple[dict[str, Any], ...] = ()
    """The first rows of `op_table()`; see `dominating_step`."""
    operator_count: int = 0
    api_calls: tuple[dict[str, Any], ...] = ()
    """The first rows of `api_table()`."""
    hardware: tuple[CounterSummary, ...] = ()
