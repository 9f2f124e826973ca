"""Causes of a regression, from `diff`, and a check whether the machine rather than the program got slower."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from unified_profiler.comparison import Diff, diff
from unified_profiler.comparison.noise import SMALLEST_SHARE, quartiles
from unified_profiler.comparison.records import DiffRow, Measured
from unified_profiler.comparison.text import label
from unified_profiler.errors import ConfigurationError
from unified_profiler.gating.metrics import Metric
from unified_profiler.gating.records import Contribution, ContributionKind
from unified_profiler.gating.series import Sample, sample, step_durations
from unified_profiler.model.run import Run
from unified_profiler.presentation.texts import texts

MOST_CONTRIBUTIONS = 10
_FEWEST_ROWS = 5
_KINDS: dict[str, ContributionKind] = {"region": "region", "api": "api"}


@dataclass(frozen=True)
class Sides:
    """All runs of both sides."""

    baseline: Sequence[Run]
    candidate: Sequence[Run]
    threshold: float

    @property
    def both(self) -> tuple[Sequence[Run], Sequence[Run]]:
        """Baseline and candidate."""
        return self.baseline, self.candidate

    def diff(self, by: str | None = None) -> Diff | None:
        """Compare all runs of one side with all of the other; None if nothing was recorded to compare."""
        sides = (Run(traces=tuple(chain.from_iterable(run.traces for run in runs))) for runs in self.both)
        try:
            return diff(*sides, by=by, threshold=self.threshold)
        except ConfigurationError:
            return None


def contributions(metric: Metric, sides: Sides) -> tuple[Contribution, ...]:
    """Return the rows of `diff` that take longer in the candidate, largest first."""
    if metric.kind == "memory":
        return ()
    result = sides.diff(metric.by)
    if result is None and metric.kind == "step":
        result = sides.diff("region")
    if result is None:
        return ()
    rows = [_row_contribution(row, result.by) for row in _rows_of_metric(metric, result)]
    rows += _outside_operators(result, sides) if metric.kind == "step" else []
    return _largest(rows)


def rank_contributions(baseline: Sample, candidate: Sample) -> tuple[Contribution, ...]:
    """Return the ranks whose own steps take longer, for jobs of several ranks."""
    before, after = (_rank_medians(side) for side in (baseline, candidate))
    if len(before) == 1:
        return ()
    return _largest([_contribution("rank", str(rank), before[rank], after[rank]) for rank in before if rank in after])


def machine_drift(sides: Sides) -> float | None:
    """Return the median log ratio of the time per call over all operators, which a slower machine shifts equally.

    None if there are too few operators.
    """
    result = sides.diff()
    if result is None:
        return None
    step_ns = max(_time(result.total), 1.0)
    rows = [row for row in _leaves(result.rows) if row.ratio and _time(row) > SMALLEST_SHARE * step_ns]
    return float(np.median([_call_log_ratio(row) for row in rows])) if len(rows) >= _FEWEST_ROWS else None


def _call_log_ratio(row: DiffRow) -> float:
    """Return the logarithm of the ratio of the times per call."""
    before, after = (0.0 if side is None else side.call_count for side in (row.baseline, row.candidate))
    return float(np.log(row.ratio or 1.0)) - (float(np.log(after / before)) if before and after else 0.0)


def _rows_of_metric(metric: Metric, result: Diff) -> Iterator[DiffRow]:
    """Yield all rows for a step, and for a canonical operator its kernels."""
    for row in _leaves(result.rows):
        if metric.kind != "op":
            yield row
        elif row.name == metric.row:
            yield from row.rows if metric.by != "name" and row.rows else [row]


def _leaves(rows: Sequence[DiffRow]) -> Iterator[DiffRow]:
    for row in rows:
        yield from _leaves(row.rows) if row.kind == "group" else [row]


def _time(row: DiffRow) -> float:
    return max(side.time_ns for side in (row.baseline, row.candidate) if side is not None)


def _row_contribution(row: DiffRow, by: str) -> Contribution:
    times = (_lower_quartile(row.baseline), _lower_quartile(row.candidate))
    contribution = _contribution(_KINDS.get(by, "operator"), label(row, texts("en")), *times)
    return contribution.model_copy(update={"differs": row.differs})


def _lower_quartile(side: Measured | None) -> float:
    """Return the lower quartile, as in the verdict, since load on the machine only adds time."""
    return 0.0 if side is None else side.low_ns


def _outside_operators(result: Diff, sides: Sides) -> list[Contribution]:
    """Return the part of a step that no operator covers (Python, waiting for data); unknown if operators overlap."""
    steps = (sample(runs, "recorded", step_durations).pooled for runs in sides.both)
    walls = [quartiles(each)[0] for each in steps if len(each)]
    totals = (result.total.baseline, result.total.candidate)
    rest = [wall - _lower_quartile(total) for wall, total in zip(walls, totals, strict=False)]
    if result.time != "host" or len(rest) < len(totals) or min(rest) < 0:
        return []
    return [_contribution("uncovered", "uncovered", *rest)]


def _contribution(kind: ContributionKind, name: str, before: float, after: float) -> Contribution:
    return Contribution(
        kind=kind, name=name, baseline_ns=before, candidate_ns=after, difference_ns=after - before, share=0.0
    )


def _largest(candidates: Sequence[Contribution]) -> tuple[Contribution, ...]:
    """Return the largest increases, each with its share of their total."""
    longer = sorted((each for each in candidates if each.difference_ns > 0), key=lambda each: -each.difference_ns)
    total = sum(each.difference_ns for each in longer)
    return tuple(each.model_copy(update={"share": each.difference_ns / total}) for each in longer[:MOST_CONTRIBUTIONS])


def _rank_medians(side: Sample) -> dict[int, float]:
    ranks = sorted({rank for run in side.by_rank for rank in run})
    values = {rank: np.concatenate([run[rank] for run in side.by_rank if rank in run]) for rank in ranks}
    return {rank: float(np.median(each)) for rank, each in values.items() if len(each)}
