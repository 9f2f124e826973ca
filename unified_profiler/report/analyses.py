"""Computes each analysis that the summary and the page of a run need, at most once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import pyarrow.compute as pc

from unified_profiler.analysis import DeviceTable, Result, api_table, device_table, op_table, step_breakdown
from unified_profiler.analysis.rank_table import RankTable, rank_table
from unified_profiler.engine import Source
from unified_profiler.model.run import Run
from unified_profiler.report.counters import Counter, counters
from unified_profiler.report.dominating_step import dominating_step
from unified_profiler.report.records import DominatingStep, StepParts
from unified_profiler.report.spans import TraceSpans
from unified_profiler.report.starvation import Starvation, starved_ranks
from unified_profiler.report.step_times import StepTimes, step_times


class Analyses:
    """A run and its analyses, computed on first access."""

    def __init__(self, source: Source) -> None:
        """Wrap a Run, or a Trace as a run with one trace."""
        self.run = Run.of(source)
        self._operators: dict[tuple[str, ...], Result] = {}

    def operators(self, *by: str) -> Result:
        """Return `op_table` of the run."""
        if by not in self._operators:
            self._operators[by] = op_table(self.run, by=by)
        return self._operators[by]

    @cached_property
    def api_calls(self) -> Result:
        """`api_table` of the run."""
        return api_table(self.run)

    @cached_property
    def breakdown(self) -> Result:
        """`step_breakdown` of the run."""
        return step_breakdown(self.run)

    @cached_property
    def step_parts(self) -> StepParts:
        """The parts of all recorded steps."""
        names = [name for name in StepParts.model_fields if name != "step_count"]
        sums = {name: pc.sum(self.breakdown.table.column(name)).as_py() or 0 for name in names}
        return StepParts(step_count=len(self.breakdown), **sums)

    @cached_property
    def device_table(self) -> DeviceTable | None:
        """`device_table` of the run; None without work of a device."""
        table = device_table(self.run)
        return table if len(table) else None

    @cached_property
    def rank_table(self) -> RankTable | None:
        """`rank_table` of the run; None for a single rank."""
        return rank_table(self.run) if len(self.run.ranks) > 1 else None

    @cached_property
    def steps(self) -> Sequence[StepTimes]:
        """The times of all steps of each rank, recorded or not."""
        return step_times(self.run)

    @cached_property
    def dominating_step(self) -> DominatingStep | None:
        """The step that took most of the recorded time, if one did."""
        return dominating_step(self.steps)

    @cached_property
    def counters(self) -> Sequence[Counter]:
        """The counters of all ranks."""
        return counters(self.run)

    @cached_property
    def starved(self) -> Sequence[Starvation]:
        """The ranks that did not get the CPU time they wanted."""
        return tuple(starved_ranks(self.run, self.counters, lambda: self.step_parts))

    @cached_property
    def spans(self) -> Sequence[TraceSpans]:
        """The spans of each trace that has events."""
        return [TraceSpans(trace) for trace in self.run.traces if len(trace)]

    @cached_property
    def ranks(self) -> dict[int, Analyses]:
        """The analyses of each rank alone."""
        if len(self.run.ranks) == 1:
            return {self.run.ranks[0]: self}
        return {rank: Analyses(self.run.select(rank=rank)) for rank in self.run.ranks}
