"""`gate`: runs before and after a change, and whether it may go in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from unified_profiler.analysis.options import part_of
from unified_profiler.engine import Source
from unified_profiler.errors import ConfigurationError
from unified_profiler.gating.checks import check, frameworks_of, in_turn, notices_of
from unified_profiler.gating.contributions import Sides
from unified_profiler.gating.judgment import case_of, judge
from unified_profiler.gating.metrics import metric_of
from unified_profiler.gating.records import GateRecord, Judgment, SideOfGate, Verdict
from unified_profiler.gating.text import as_text
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace
from unified_profiler.report.summary import name_of

Sources: TypeAlias = Source | Sequence[Source]

_GRAVEST = (Verdict.REGRESSION, Verdict.CANNOT_TELL, Verdict.WITHIN)


class Gate(GateRecord):
    """The verdict over all metrics. `print` shows it; `model_dump_json()` gives everything."""

    def __str__(self) -> str:
        """Return it as text."""
        return as_text(self)


@checked_keywords
def gate(
    baseline: Sources,
    candidate: Sources,
    *,
    max_regression: float | str = 0.05,
    metric: str | Sequence[str] = "step",
    rank: int | None = None,
) -> Gate:
    """Judge whether a program got slower by more than is allowed.

    A regression is told only if the lower quartile of the candidate's steps is slower by more than `max_regression`,
    with 95 % confidence, and if the fastest steps and the median say so, too. Noise is judged by how blocks of steps
    differ within runs; with six runs or more of each side, taken in turn, by how neighboring runs differ.

    Args:
        baseline: A Trace or a Run, or several, in the order in which they were recorded.
        candidate: Likewise, what is judged.
        max_regression: How much slower is still accepted, as a part (0.05) or in percent ("5%").
        metric: `step`, `op:NAME`, `region:NAME`, `api:NAME` or `memory`; or several of these.
        rank: Judge only this rank; else the slowest rank of each step counts.

    Raises:
        ConfigurationError: A wrong option, a metric that one side lacks, or runs that cannot be set against each other.
    """
    limit = part_of("max_regression", max_regression)
    before, after = _runs(baseline, rank), _runs(candidate, rank)
    check(before, after, all_ranks=rank is None)
    sides, turns = Sides(before, after, limit), in_turn(before, after)
    wanted = dict.fromkeys([metric] if isinstance(metric, str) else metric)
    if not wanted:
        msg = "`metric` must name something to judge, such as `step`; found nothing."
        raise ConfigurationError(msg)
    found = [metric_of(each, before, after) for each in wanted]
    judgments = tuple(judge(case_of(each, sides, in_turn=turns), limit) for each in found)
    return Gate(
        verdict=_gravest(judgments),
        max_regression=limit,
        baseline=_side(before),
        candidate=_side(after),
        judgments=judgments,
        notices=notices_of(before, after),
    )


def _gravest(judgments: Sequence[Judgment]) -> Verdict:
    return min((each.verdict for each in judgments), key=_GRAVEST.index)


def _runs(sources: Sources, rank: int | None) -> list[Run]:
    several = [sources] if isinstance(sources, Trace | Run) else sources
    return [Run.of(each).select(rank=rank) for each in several]


def _side(runs: Sequence[Run]) -> SideOfGate:
    return SideOfGate(
        names=tuple(map(name_of, runs)),
        frameworks=frameworks_of(runs),
        ranks=tuple(sorted({rank for run in runs for rank in run.ranks})),
    )
