"""`diff`: compares two runs row by row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Literal

import numpy as np

from unified_profiler.analysis.options import chosen, part_of
from unified_profiler.comparison.attention import ATTENTION
from unified_profiler.comparison.families import folding
from unified_profiler.comparison.groupings import Grouping, groupings
from unified_profiler.comparison.notices import notices_of
from unified_profiler.comparison.pieces import PYTHON
from unified_profiler.comparison.records import DiffRecord, Side
from unified_profiler.comparison.rows import RowBuilder
from unified_profiler.comparison.sides import ComparedSide, SidePieces
from unified_profiler.comparison.text import as_html, as_text
from unified_profiler.engine import Source, traces_of
from unified_profiler.errors import ConfigurationError
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.run import Run
from unified_profiler.report.summary import name_of, steps_of

THRESHOLD = 0.05
_NAMED_ENOUGH = 0.5
"""The smallest share of a side's time with an origin for which comparing by origin makes sense."""


class Diff(DiffRecord):
    """The comparison of two runs. `print` shows it; `model_dump_json()` returns everything."""

    def __str__(self) -> str:
        """Return the diff as aligned text."""
        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the diff as HTML for notebooks."""
        return as_html(self)


@checked_keywords
def diff(baseline: Source, candidate: Source, *, by: str | None = None, threshold: float | str = THRESHOLD) -> Diff:
    """Compare two runs: the calls and times of each operator in a step, and what only one of them runs.

    Runs of different frameworks are compared by the operator or layer that caused the work (`origin`), in groups, with
    the kernels of each side below; runs of one framework by the names of operators, with their shapes below.

    Args:
        baseline: A Trace or a Run.
        candidate: The Trace or Run that it is compared with.
        by: The grouping of the rows: `origin`, `op`, `name`, `region`, `module` or `api`; chosen by the frameworks if
            not given.
        threshold: The smallest difference that matters, as a fraction (0.05) or in percent ("5%").

    Raises:
        ConfigurationError: `by` or `threshold` is invalid, or there is nothing to compare.
    """
    runs = Run.of(baseline), Run.of(candidate)
    limit = part_of("threshold", threshold)
    across = _frameworks(runs[0]).keys() != _frameworks(runs[1]).keys()
    choices = groupings(across_frameworks=across)
    if by is not None:
        chosen("by", by, choices)
    grouping = by or ("origin" if across else "name")
    pieces = [_side_pieces(run, choices[grouping]) for run in runs]
    if by is None and across and min(map(_named_share, pieces)) < _NAMED_ENOUGH:
        grouping = "op"
        pieces = [_side_pieces(run, choices[grouping]) for run in runs]
    for run, side, label in zip(runs, pieces, ("baseline", "candidate"), strict=True):
        _check(run, side, grouping, label)
    _check_steps(pieces)
    canonical = choices[grouping].is_canonical
    return _build(runs, pieces, grouping, limit, across=across, canonical=canonical)


def _build(
    runs: Sequence[Run], pieces: Sequence[SidePieces], by: str, threshold: float, *, across: bool, canonical: bool
) -> Diff:
    time = _time(pieces, by)
    sides = [
        ComparedSide(side, side.row, side.called, side.device_ns if time == "device" else side.host_ns, side.counted)
        for side in pieces
    ]
    if by == "origin":
        sides = _with_attention(sides)
    if canonical:
        family_of = folding(sides[0].keys(), sides[1].keys())
        sides = [side.with_families(family_of) for side in sides]
    builder = RowBuilder(sides, threshold, alike=not across)
    total, rows, noise = builder.build(grouped=canonical, parts=by != "region")
    first, second = (_side(run, side, other) for run, side, other in zip(runs, sides, reversed(sides), strict=True))
    diff = Diff(
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
    return diff.model_copy(update={"notices": notices_of(diff)})


def _with_attention(sides: Sequence[ComparedSide]) -> list[ComparedSide]:
    """Add rows for attention to a side that runs it as single operators, if the other side has rows for it."""
    has_rows = [side.has_row(ATTENTION) for side in sides]
    return [side.with_attention() if other else side for side, other in zip(sides, reversed(has_rows), strict=True)]


def _frameworks(run: Run) -> dict[str, str]:
    return dict(chain.from_iterable(trace.info.frameworks.items() for trace in traces_of(run)))


def _side_pieces(run: Run, grouping: Grouping) -> SidePieces:
    return SidePieces(run.traces, [grouping.pieces(trace.events) for trace in run.traces])


def _named_share(side: SidePieces) -> float:
    time = side.host_ns + side.device_ns
    unnamed = np.array([name is None for name, _ in side.row.values] or [False])[side.row.codes]
    return 1 - float(time[unnamed].sum()) / max(float(time.sum()), 1.0)


def _check(run: Run, side: SidePieces, by: str, label: str) -> None:
    """Check that a side has something to compare.

    Raises:
        ConfigurationError: It has not.
    """
    if len(side.step):
        return
    compared = {"region": "steps or regions", "api": "API calls"}.get(by, "operators")
    advice = {
        "region": "Mark them with Profiler.region() and step().",
        "api": "Record with Profiler(api=True) or `unified-profiler run --api`.",
    }.get(by, "Check what was recorded with `unified-profiler summary`.")
    msg = f"The {label} {name_of(run)} holds no {compared}, so there is nothing to compare. {advice}".replace("  ", " ")
    raise ConfigurationError(msg)


def _check_steps(pieces: Sequence[SidePieces]) -> None:
    """Check that both sides have steps, or neither.

    Raises:
        ConfigurationError: One side has steps and the other has none.
    """
    if pieces[0].has_steps == pieces[1].has_steps:
        return
    label = "candidate" if pieces[0].has_steps else "baseline"
    msg = (
        f"The {label} has no steps but the other side has, so times per step cannot be compared. "
        "Record it again with Profiler.step() at the end of each iteration."
    )
    raise ConfigurationError(msg)


def _time(pieces: Sequence[SidePieces], by: str) -> Literal["host", "device", "wall"]:
    if by in {"region", "api"}:
        return "wall"
    return "device" if all(side.device_ns.any() for side in pieces) else "host"


def _side(run: Run, side: ComparedSide, other: ComparedSide) -> Side:
    operators = max(side.time_of(lambda key: key[0] != PYTHON), 1)
    common = other.keys() | {(PYTHON, None)}
    steps = steps_of(run)
    return Side(
        name=name_of(run),
        frameworks=_frameworks(run),
        ranks=tuple(run.ranks),
        step_count=side.pieces.step_count if side.pieces.has_steps else 0,
        step_ns=steps.recorded_step_ns,
        unrecorded_step_ns=steps.unrecorded_step_ns,
        unrecorded_step_count=steps.unrecorded_count,
        overhead_ratio=steps.overhead_ratio,
        total_ns=side.total_ns,
        outside_steps_ns=side.outside_ns,
        unnamed_share=side.time_of(lambda key: key[0] is None) / operators,
        unmatched_share=side.time_of(lambda key: key not in common) / operators,
        thread_count=side.pieces.thread_count,
        device_ns=int(side.pieces.device_ns[side.in_step].sum()),
    )
