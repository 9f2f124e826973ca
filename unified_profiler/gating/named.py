"""Operators, API calls and regions by the step they ran in: the rows of `diff`, and the regions of `step_breakdown`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, Protocol

import numpy as np

from unified_profiler.analysis import step_breakdown
from unified_profiler.comparison.groupings import groupings
from unified_profiler.comparison.pieces import Pieces
from unified_profiler.comparison.sides import step_numbers
from unified_profiler.gating.series import OfRank, Values
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace
from unified_profiler.report.step_times import StepTimes


class NamedTimes(Protocol):
    """Finds names, and the time that one of them took in each step."""

    by: str
    """The level of `diff` that has them."""

    def names(self, runs: Iterable[Run]) -> set[str]:
        """Return all that ran in recorded steps."""
        ...

    def of_rank(self, name: str, sides: Sequence[Sequence[Run]]) -> OfRank:
        """Return what measures one of them."""
        ...


class Rows:
    """Rows of one level of `diff`, whatever their direction."""

    def __init__(self, by: str) -> None:
        self.by = by
        grouping = groupings(across_frameworks=False)[by]
        self._pieces: Callable[[Trace], Pieces] = cache(lambda trace: grouping.pieces(trace.events))

    def names(self, runs: Iterable[Run]) -> set[str]:
        """Return all that ran in recorded steps."""
        found = (self._pieces(trace) for run in runs for trace in run.traces)
        rows = (pieces.row.of(pieces.step >= 0).distinct().values for pieces in found)
        return {name for values in rows for name, _ in values if name is not None}

    def of_rank(self, name: str, sides: Sequence[Sequence[Run]]) -> OfRank:
        """Return what measures a row: on the device if both sides work there, else on the host."""
        on_device = all(any(map(self._works_on_device, runs)) for runs in sides)
        return partial(self._values, name=name, on_device=on_device)

    def _works_on_device(self, run: Run) -> bool:
        return any(bool(self._pieces(trace).device_ns.any()) for trace in run.traces)

    def _values(self, run: Run, times: StepTimes, *, name: str, on_device: bool) -> Values:
        traces = run.select(rank=times.rank).traces
        return _of_steps(times, [self._of_trace(trace, name, on_device=on_device) for trace in traces])

    def _of_trace(self, trace: Trace, name: str, *, on_device: bool) -> Values:
        pieces = self._pieces(trace)
        steps = step_numbers(trace, pieces)
        named = np.array([key[0] == name for key in pieces.row.values] or [False])[pieces.row.codes]
        chosen = named & (pieces.step >= 0) if len(pieces) else named[:0]
        amount = pieces.device_ns if on_device else pieces.host_ns
        place = np.searchsorted(steps, pieces.step[chosen])
        return Values(steps, np.bincount(place, weights=amount[chosen], minlength=len(steps)).astype(np.float64))


class Regions:
    """The application's regions, each with all that is inside it."""

    by = "region"

    def __init__(self) -> None:
        self._known: dict[int, list[dict[str, Any]]] = {}

    def names(self, runs: Iterable[Run]) -> set[str]:
        """Return all that ran in recorded steps."""
        return {name for run in runs for row in self._rows(run) for name, _ in row["regions_ns"]}

    def of_rank(self, name: str, sides: Sequence[Sequence[Run]]) -> OfRank:  # noqa: ARG002  regions are of the host
        """Return what measures a region."""
        return partial(self._values, name=name)

    def _rows(self, run: Run) -> list[dict[str, Any]]:
        if id(run) not in self._known:
            self._known[id(run)] = step_breakdown(run).table.to_pylist()
        return self._known[id(run)]

    def _values(self, run: Run, times: StepTimes, *, name: str) -> Values:
        rows = [row for row in self._rows(run) if row["rank"] == times.rank]
        spent = [dict(row["regions_ns"]).get(name, 0) for row in rows]
        return _of_steps(
            times, [Values(np.array([row["step"] for row in rows], np.int64), np.array(spent, np.float64))]
        )


def _of_steps(times: StepTimes, found: Sequence[Values]) -> Values:
    """Return the values of the steps that count."""
    steps = np.concatenate([each.step for each in found] or [np.zeros(0, np.int64)])
    value = np.concatenate([each.value for each in found] or [np.zeros(0)])
    kept = np.isin(steps, times.step)
    return Values(steps[kept], value[kept])
