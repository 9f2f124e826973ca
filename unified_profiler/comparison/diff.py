"""`diff`: two runs, set side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Literal

import numpy as np

from unified_profiler.analysis.options import chosen, part_of
from unified_profiler.comparison.attention import ATTENTION
from unified_profiler.comparison.families import folding
from unified_profiler.comparison.levels import Level, levels
from unified_profiler.comparison.notices import notices_of
from unified_profiler.comparison.pieces import PYTHON
from unified_profiler.comparison.records import DiffRecord, Side
from unified_profiler.comparison.rows import Rows
from unified_profiler.comparison.sides import Gathered, SideOfDiff
from unified_profiler.comparison.text import as_html, as_text
from unified_profiler.engine import Source, traces_of
from unified_profiler.errors import ConfigurationError
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.run import Run
from unified_profiler.report.summary import name_of, steps_of

THRESHOLD = 0.05
_NAMED_ENOUGH = 0.5
"""Part of a side's time that has an origin, from which on comparing by origin makes sense."""


class Diff(DiffRecord):
    """Two runs, set side by side. `print` shows it; `model_dump_json()` gives everything."""

    def __str__(self) -> str:
        """Return it as aligned text."""
        return as_text(self)

    def _repr_html_(self) -> str:
        """Return it as notebooks show it."""
        return as_html(self)


@checked_keywords
def diff(baseline: Source, candidate: Source, *, by: str | None = None, threshold: float | str = THRESHOLD) -> Diff:
    """Compare two runs: what each does in a step, how often, how long, and what the other does not do.

    Runs of different frameworks are compared by the operator or layer that caused the work (`origin`), in groups, with
    the kernels of each side below; runs of one framework by the names of operators, with their shapes below.

    Args:
        baseline: A Trace or a Run.
        candidate: What it is compared with.
        by: What makes a row: `origin`, `op`, `name`, `region`, `module` or `api`; chosen by the frameworks if not
            given.
        threshold: The smallest difference that matters, as a part (0.05) or in percent ("5%").

    Raises:
        ConfigurationError: Something else was given for `by` or `threshold`, or there is nothing that could be
            compared.
    """
    runs = _as_run(baseline), _as_run(candidate)
    limit = part_of("threshold", threshold)
    across = _frameworks(runs[0]).keys() != _frameworks(runs[1]).keys()
    ways = levels(across_frameworks=across)
    if by is not None:
        chosen("by", by, ways)
    way = by or ("origin" if across else "name")
    gathered = [_gathered(run, ways[way]) for run in runs]
    if by is None and across and min(map(_named_share, gathered)) < _NAMED_ENOUGH:
        way = "op"
        gathered = [_gathered(run, ways[way]) for run in runs]
    for run, side, label in zip(runs, gathered, ("baseline", "candidate"), strict=True):
        _check(run, side, way, label)
    _check_steps(gathered)
    return _built(runs, gathered, way, ways[way], limit, across=across)


def _built(
    runs: Sequence[Run], gathered: Sequence[Gathered], by: str, level: Level, threshold: float, *, across: bool
) -> Diff:
    time = _time(gathered, by)
    amounts = [side.device_ns if time == "device" else side.host_ns for side in gathered]
    sides = [
        SideOfDiff(side, side.row, side.called, amount, side.counted)
        for side, amount in zip(gathered, amounts, strict=True)
    ]
    if by == "origin":
        sides = _with_attention(sides)
    if level.grouped:
        folded = folding(sides[0].keys(), sides[1].keys())
        sides = [side.folded(folded) for side in sides]
    total, rows, noise = Rows(sides[0], sides[1], threshold, alike=not across).build(
        grouped=level.grouped, parts=by != "region"
    )
    first, second = (_side(run, side, other) for run, side, other in zip(runs, sides, reversed(sides), strict=True))
    found = Diff(
        by=by,
        threshold=threshold,
        time=time,
        across_frameworks=across,
        drift_ratio=float(np.exp(noise.drift)) if noise.drift else None,
        baseline=first,
        candidate=second,
        total=total,
        rows=rows,
    )
    return found.model_copy(update={"notices": notices_of(found)})


def _with_attention(sides: Sequence[SideOfDiff]) -> list[SideOfDiff]:
    """Let a side that runs attention as single operators have rows of it, where the other side has them."""
    has_rows = [side.has_row(ATTENTION) for side in sides]
    return [side.with_attention() if other else side for side, other in zip(sides, reversed(has_rows), strict=True)]


def _as_run(source: Source) -> Run:
    return Run.of(source)


def _frameworks(run: Run) -> dict[str, str]:
    return dict(chain.from_iterable(trace.info.frameworks.items() for trace in traces_of(run)))


def _gathered(run: Run, level: Level) -> Gathered:
    return Gathered(run.traces, [level.pieces(trace.events) for trace in run.traces])


def _named_share(side: Gathered) -> float:
    time = side.host_ns + side.device_ns
    unnamed = np.array([name is None for name, _ in side.row.values] or [False])[side.row.codes]
    return 1 - float(time[unnamed].sum()) / max(float(time.sum()), 1.0)


def _check(run: Run, side: Gathered, by: str, label: str) -> None:
    """Refuse a side that has nothing of what is compared.

    Raises:
        ConfigurationError: It has not.
    """
    if len(side.step):
        return
    what = {"region": "steps or regions", "api": "API calls"}.get(by, "operators")
    how = {
        "region": "Mark them with Profiler.region() and step().",
        "api": "Record with Profiler(api=True) or `unified-profiler run --api`.",
    }.get(by, "Was anything recorded? `unified-profiler summary` tells.")
    msg = f"The {label} {name_of(run)} holds no {what}, so there is nothing to compare. {how}".replace("  ", " ")
    raise ConfigurationError(msg)


def _check_steps(gathered: Sequence[Gathered]) -> None:
    """Refuse to set the time of a step against that of a whole recording.

    Raises:
        ConfigurationError: One side has steps and the other has none.
    """
    if gathered[0].has_steps == gathered[1].has_steps:
        return
    label = "candidate" if gathered[0].has_steps else "baseline"
    msg = (
        f"The {label} has no steps and the other side has, so times per step cannot be compared. "
        "Record it again with Profiler.step() at the end of each iteration."
    )
    raise ConfigurationError(msg)


def _time(gathered: Sequence[Gathered], by: str) -> Literal["host", "device", "wall"]:
    if by in {"region", "api"}:
        return "wall"
    return "device" if all(side.device_ns.any() for side in gathered) else "host"


def _side(run: Run, side: SideOfDiff, other: SideOfDiff) -> Side:
    operators = max(side.time_of(lambda key: key[0] != PYTHON), 1)
    common = other.keys() | {(PYTHON, None)}
    steps = steps_of(run)
    return Side(
        name=name_of(run),
        frameworks=_frameworks(run),
        ranks=tuple(run.ranks),
        step_count=side.gathered.step_count if side.gathered.has_steps else 0,
        step_ns=steps.recorded_step_ns,
        unrecorded_step_ns=steps.unrecorded_step_ns,
        unrecorded_step_count=steps.unrecorded_count,
        overhead_ratio=steps.overhead_ratio,
        total_ns=side.total_ns,
        outside_steps_ns=side.outside_ns,
        unnamed_share=side.time_of(lambda key: key[0] is None) / operators,
        unmatched_share=side.time_of(lambda key: key not in common) / operators,
        thread_count=side.gathered.thread_count,
        device_ns=int(side.gathered.device_ns[side.in_step].sum()),
    )
