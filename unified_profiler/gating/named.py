"""Times of named operators, API calls and regions per step, from the rows of `diff` and of `step_breakdown`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from unified_profiler.analysis import step_breakdown
from unified_profiler.comparison.groupings import groupings
from unified_profiler.comparison.pieces import Pieces
from unified_profiler.comparison.sides import step_numbers
from unified_profiler.gating.series import Measure, StepValues
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace
from unified_profiler.report.step_times import StepTimes


class DiffRowTimes:
    """Times of the rows of one grouping of `diff`, all directions together."""

    def __init__(self, by: str) -> None:
        self.by = by
        grouping = groupings(across_frameworks=False)[by]
        self._pieces: Callable[[Trace], Pieces] = cache(lambda trace: grouping.pieces(trace.events))

    def names(self, runs: Iterable[Run]) -> set[str]:
        """Return the names that occur in recorded steps."""
        traces = (self._pieces(trace) for run in runs for trace in run.traces)
        rows = (pieces.row.of(pieces.step >= 0).distinct().values for pieces in traces)
        return {name for values in rows for name, _ in values if name is not None}

    def measure(self, name: str, sides: Sequence[Sequence[Run]]) -> Measure:
        """Return the function that measures a row: its device time if both sides have device work, else host time."""
        on_device = all(any(map(self._has_device_time, runs)) for runs in sides)
        return partial(self._run_values, name=name, on_device=on_device)

    def _has_device_time(self, run: Run) -> bool:
        return any(bool(self._pieces(trace).device_ns.any()) for trace in run.traces)

    def _run_values(self, run: Run, times: StepTimes, *, name: str, on_device: bool) -> StepValues:
        traces = run.select(rank=times.rank).traces
        return _select_steps(times, [self._trace_values(trace, name, on_device=on_device) for trace in traces])

    def _trace_values(self, trace: Trace, name: str, *, on_device: bool) -> StepValues:
        pieces = self._pieces(trace)
        steps = step_numbers(trace, pieces)
        named = np.array([key[0] == name for key in pieces.row.values] or [False])[pieces.row.codes]
        rows = named & (pieces.step >= 0) if len(pieces) else named[:0]
        time_ns = pieces.device_ns if on_device else pieces.host_ns
        index = np.searchsorted(steps, pieces.step[rows])
        return StepValues(steps, np.bincount(index, weights=time_ns[rows], minlength=len(steps)).astype(np.float64))


class RegionTimes:
    """Times of the application's regions, including everything inside them."""

    by = "region"

    def __init__(self) -> None:
        self._breakdowns: dict[int, list[dict[str, Any]]] = {}

    def names(self, runs: Iterable[Run]) -> set[str]:
        """Return the names that occur in recorded steps."""
        return {name for run in runs for row in self._breakdown(run) for name, _ in row["regions_ns"]}

    def measure(self, name: str, sides: Sequence[Sequence[Run]]) -> Measure:  # noqa: ARG002  always host time
        """Return the function that measures a region."""
        return partial(self._run_values, name=name)

    def _breakdown(self, run: Run) -> list[dict[str, Any]]:
        if id(run) not in self._breakdowns:
            self._breakdowns[id(run)] = step_breakdown(run).table.to_pylist()
        return self._breakdowns[id(run)]

    def _run_values(self, run: Run, times: StepTimes, *, name: str) -> StepValues:
        rows = [row for row in self._breakdown(run) if row["rank"] == times.rank]
        steps = np.array([row["step"] for row in rows], np.int64)
        region_ns = np.array([dict(row["regions_ns"]).get(name, 0) for row in rows], np.float64)
        return _select_steps(times, [StepValues(steps, region_ns)])


NamedTimes: TypeAlias = DiffRowTimes | RegionTimes


def _select_steps(times: StepTimes, parts: Sequence[StepValues]) -> StepValues:
    """Join the values and keep those of the given steps."""
    steps = np.concatenate([part.step for part in parts] or [np.zeros(0, np.int64)])
    value = np.concatenate([part.value for part in parts] or [np.zeros(0)])
    kept = np.isin(steps, times.step)
    return StepValues(steps[kept], value[kept])
