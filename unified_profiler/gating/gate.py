"""`gate`: judges whether runs with a change are slower than runs without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from unified_profiler.analysis.options import part_of
from unified_profiler.engine import Source
from unified_profiler.errors import ConfigurationError
from unified_profiler.gating.checks import check, frameworks_of, in_turn, notices_of
from unified_profiler.gating.contributions import Sides
from unified_profiler.gating.judgment import case_of, judge
from unified_profiler.gating.markdown import markdown
from unified_profiler.gating.metrics import metric_of
from unified_profiler.gating.records import GateRecord, GateSide, Verdict
from unified_profiler.gating.text import as_text
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace
from unified_profiler.report.summary import name_of

Sources: TypeAlias = Source | Sequence[Source]

_SEVERITY = (Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.WITHIN)
"""Most severe first."""


class Gate(GateRecord):
    """The verdict over all metrics. `print` shows it as text; `model_dump_json()` returns all of it."""

    def __str__(self) -> str:
        """Return the verdict as aligned text."""
        return as_text(self)

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        """Return the verdict for notebooks."""
        return markdown(self)


@checked_keywords
def gate(
    baseline: Sources,
    candidate: Sources,
    *,
    max_regression: float | str = 0.05,
    metric: str | Sequence[str] = "step",
    rank: int | None = None,
) -> Gate:
    """Judge whether a program got slower by more than `max_regression`.

    A regression is reported only if the lower quartile of the candidate's steps is slower by more than this with 95 %
    confidence, and the fastest steps and the median confirm it. Noise is estimated from how blocks of steps differ
    within runs; with six or more runs of each side, recorded in turn, from how the runs of each pair differ.

    Args:
        baseline: A Trace or a Run, or several, in the order in which they were recorded.
        candidate: The same for the runs to judge.
        max_regression: The largest accepted slowdown, as a fraction (0.05) or in percent ("5%").
        metric: `step`, `op:NAME`, `region:NAME`, `api:NAME` or `memory`; or several of these.
        rank: Judge only this rank; by default the slowest rank of each step counts.

    Raises:
        ConfigurationError: An option is wrong, a side lacks a metric, or the runs cannot be compared.
    """
    limit = part_of("max_regression", max_regression)
    before, after = _runs(baseline, rank), _runs(candidate, rank)
    check(before, after, all_ranks=rank is None)
    names = dict.fromkeys([metric] if isinstance(metric, str) else metric)
    if not names:
        msg = "`metric` must name at least one metric, such as `step`; found none."
        raise ConfigurationError(msg)
    sides, alternating = Sides(before, after, limit), in_turn(before, after)
    metrics = [metric_of(name, before, after) for name in names]
    judgments = tuple(judge(case_of(each, sides, in_turn=alternating), limit) for each in metrics)
    return Gate(
        verdict=min((each.verdict for each in judgments), key=_SEVERITY.index),
        max_regression=limit,
        baseline=_side(before),
        candidate=_side(after),
        judgments=judgments,
        notices=notices_of(before, after),
    )


def _runs(sources: Sources, rank: int | None) -> list[Run]:
    all_sources = [sources] if isinstance(sources, Trace | Run) else sources
    return [Run.of(source).select(rank=rank) for source in all_sources]


def _side(runs: Sequence[Run]) -> GateSide:
    return GateSide(
        names=tuple(map(name_of, runs)),
        frameworks=frameworks_of(runs),
        ranks=tuple(sorted({rank for run in runs for rank in run.ranks})),
    )
