"""What makes up a change, by `diff`; and whether it looks like a slower machine rather than a slower program."""

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
from unified_profiler.gating.records import Contribution, Kind
from unified_profiler.gating.series import Sample, durations, sample
from unified_profiler.model.run import Run
from unified_profiler.presentation.texts import texts

MOST = 10
_FEWEST_ROWS = 5
_KINDS: dict[str, Kind] = {"region": "region", "api": "api"}
OUTSIDE = "outside of operators"


@dataclass(frozen=True)
class Sides:
    """All runs of both sides, as `diff` takes them."""

    baseline: Sequence[Run]
    candidate: Sequence[Run]
    threshold: float

    def diff(self, by: str | None = None) -> Diff | None:
        """Compare all runs of one side with all of the other; None if there is nothing recorded to compare."""
        sides = (Run(traces=tuple(chain.from_iterable(run.traces for run in runs))) for runs in self._both)
        try:
            return diff(*sides, by=by, threshold=self.threshold)
        except ConfigurationError:
            return None

    @property
    def _both(self) -> tuple[Sequence[Run], Sequence[Run]]:
        return self.baseline, self.candidate


def contributions(metric: Metric, sides: Sides) -> tuple[Contribution, ...]:
    """Return what takes longer in the candidate, the largest first."""
    if metric.kind == "memory":
        return ()
    found = sides.diff(metric.by)
    if found is None and metric.kind == "step":
        found = sides.diff("region")
    if found is None:
        return ()
    made = [_contribution(row, found.by) for row in _chosen(metric, found)]
    made += _outside(found, sides) if metric.kind == "step" else []
    return _largest(made)


def rank_contributions(baseline: Sample, candidate: Sample) -> tuple[Contribution, ...]:
    """Return the ranks whose own steps take longer, where there are several; the others wait for them."""
    before, after = (_middles(side) for side in (baseline, candidate))
    if len(before) == 1:
        return ()
    return _largest([_made("rank", str(rank), before[rank], after[rank]) for rank in before if rank in after])


def machine_drift(sides: Sides) -> float | None:
    """Return how much slower most calls of operators are alike, as on a slower machine, as a logarithm.

    None if too few operators are known to tell.
    """
    found = sides.diff()
    if found is None:
        return None
    step_ns = max(_time(found.total), 1.0)
    rows = [row for row in _leaves(found.rows) if row.ratio and _time(row) > SMALLEST_SHARE * step_ns]
    return float(np.median([_per_call(row) for row in rows])) if len(rows) >= _FEWEST_ROWS else None


def _per_call(row: DiffRow) -> float:
    """Return the logarithm of the ratio of the times of a call."""
    before, after = (0.0 if side is None else side.call_count for side in (row.baseline, row.candidate))
    return float(np.log(row.ratio or 1.0)) - (float(np.log(after / before)) if before and after else 0.0)


def _chosen(metric: Metric, found: Diff) -> Iterator[DiffRow]:
    """Give the rows that make up a metric: all of a step's, of a canonical operator its kernels."""
    for row in _leaves(found.rows):
        if metric.kind != "op":
            yield row
        elif row.name == metric.row:
            yield from row.rows if metric.by != "name" and row.rows else [row]


def _leaves(rows: Sequence[DiffRow]) -> Iterator[DiffRow]:
    for row in rows:
        yield from _leaves(row.rows) if row.kind == "group" else [row]


def _time(row: DiffRow) -> float:
    return max(side.time_ns for side in (row.baseline, row.candidate) if side is not None)


def _contribution(row: DiffRow, by: str) -> Contribution:
    made = _made(_KINDS.get(by, "operator"), label(row, texts("en")), _quick(row.baseline), _quick(row.candidate))
    return made.model_copy(update={"differs": row.differs})


def _quick(side: Measured | None) -> float:
    """Return the lower quartile, as in the verdict: load on the machine only ever adds time."""
    return 0.0 if side is None else side.low_ns


def _outside(found: Diff, sides: Sides) -> list[Contribution]:
    """Return what of a step no operator covers: Python, waiting for data. Of operators that overlap none is known."""
    steps = (sample(runs, "recorded", durations).together for runs in (sides.baseline, sides.candidate))
    walls = [quartiles(each)[0] for each in steps if len(each)]
    totals = (found.total.baseline, found.total.candidate)
    rest = [wall - _quick(total) for wall, total in zip(walls, totals, strict=False)]
    if found.time != "host" or len(rest) < len(totals) or min(rest) < 0:
        return []
    return [_made("outside", OUTSIDE, *rest)]


def _made(kind: Kind, name: str, before: float, after: float) -> Contribution:
    return Contribution(
        kind=kind, name=name, baseline_ns=before, candidate_ns=after, difference_ns=after - before, share=0.0
    )


def _largest(made: Sequence[Contribution]) -> tuple[Contribution, ...]:
    """Return what takes longer, with its share of all that does."""
    longer = sorted((each for each in made if each.difference_ns > 0), key=lambda each: -each.difference_ns)
    everything = sum(each.difference_ns for each in longer)
    return tuple(each.model_copy(update={"share": each.difference_ns / everything}) for each in longer[:MOST])


def _middles(side: Sample) -> dict[int, float]:
    ranks = sorted({rank for run in side.by_rank for rank in run})
    values = {rank: np.concatenate([run[rank] for run in side.by_rank if rank in run]) for rank in ranks}
    return {rank: float(np.median(each)) for rank, each in values.items() if len(each)}
