"""`rank_table`: compares the ranks of a run and states which rank is slow, since when, why, and with what p-value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.rank_steps import RankSteps, rank_steps
from unified_profiler.analysis.stragglers import FEWEST_STEPS, StepMatrix, Straggler
from unified_profiler.engine import Engine, Result, Source
from unified_profiler.errors import TraceFormatError
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.clocks import Clocks
from unified_profiler.model.run import Run
from unified_profiler.model.statements import Statement, Value, statement
from unified_profiler.presentation.tables import format_time

HEADINGS: Mapping[str, str] = {
    "rank": "Rank",
    "step": "Step",
    "step_count": "Steps",
    "wall_ns": "Wall",
    "own_ns": "Own",
    "skew_ns": "Skew",
    "compute_ns": "Compute",
    "collective_ns": "Collectives",
    "waiting_ns": "Waiting",
    "copy_ns": "Copies",
    "data_ns": "Data",
    "uncovered_ns": "Uncovered",
}
"""The columns and their headings in printed tables."""
_SMALLEST_P_VALUE = 1e-16
"""Smaller ones are not distinguished from zero."""
_ONLY_IF_ANY = frozenset({"skew_ns", "collective_ns", "waiting_ns", "copy_ns", "data_ns"})


@dataclass(frozen=True, repr=False)
class RankTable(Result):
    """Each step of each rank, and the conclusions.

    Attributes:
        verdict: The slow ranks and the causes, or that no rank is slow, as statements.
        notices: Limits of the verdict: ranks that are missing or died, steps that only some ranks have, clock offsets.
        stragglers: The slow ranks as values, the slowest first.
        clocks: The offsets of the ranks' clocks, by which all times were corrected.
    """

    verdict: tuple[Statement, ...] = ()
    notices: tuple[Statement, ...] = ()
    stragglers: tuple[Straggler, ...] = ()
    clocks: Clocks | None = None

    @cached_property
    def ranks(self) -> Result:
        """One row per rank: the median of each column over its steps."""
        rank = self.table.column("rank").to_numpy()
        rows = [self._medians(int(number), np.flatnonzero(rank == number)) for number in np.unique(rank)]
        names = [name for name in HEADINGS if name != "step"]
        kinds = [pa.int32() if name in {"rank", "step_count"} else pa.int64() for name in names]
        table = pa.Table.from_pylist(rows, schema=pa.schema(list(zip(names, kinds, strict=True))))
        return Result(table=table, headings=_headings(self.table, names), footer=self.footer, sorted_by="rank")

    def _medians(self, rank: int, rows: np.typing.NDArray[np.int64]) -> dict[str, int | None]:
        medians: dict[str, int | None] = {"rank": rank, "step_count": len(rows)}
        for name in (name for name in HEADINGS if name.endswith("_ns")):
            values = self.table.column(name).take(pa.array(rows)).drop_null().to_numpy()
            medians[name] = int(np.median(values)) if len(values) else None
        return medians


@checked_keywords
def rank_table(source: Source, *, engine: Engine | None = None) -> RankTable:
    """Compare the ranks of a run, step by step, and report which is slow.

    `own_ns` is the wall time of a step less `waiting_ns`, which the rank spent in collectives with nothing else to do
    before all ranks had entered them. `skew_ns` is how much it exceeds the median of the other ranks. The parts add up
    to the wall time: with a device, time counts as computing if a kernel ran, else as a copy, a collective, loading
    data, computing on the host, or uncovered; without one as loading data, computing, a copy, a collective, or
    uncovered. So collectives that overlap with computation cost nothing here, unlike in `step_breakdown`.

    A rank is slow if from some step on nearly all of its steps have over a tenth more own time than those of the
    others. The clocks of several machines are compared by the ends of collectives and corrected first.

    Args:
        source: A Run of several ranks.
        engine: Executes the queries; the embedded DuckDB if not given.

    Raises:
        TraceFormatError: Two traces of the run have the same rank and cycle.

    Example:
        >>> print(rank_table(read("profile")).ranks)
    """
    run = Run.of(source)
    _check_ranks(run)
    steps = rank_steps(run, engine=engine)
    verdict = tuple(each.with_text("ranks") for each in _verdict(steps))
    notices = tuple(each.with_text("ranks") for each in _notices(run, steps))
    table = _with_skew(steps.table, steps.matrix)
    return RankTable(
        table=table,
        headings=_headings(table, [name for name in HEADINGS if name != "step_count"]),
        footer=tuple(statement.text for statement in (*verdict, *notices)),
        sorted_by="step",
        verdict=verdict,
        notices=notices,
        stragglers=tuple(steps.stragglers),
        clocks=steps.clocks,
    )


def _headings(table: pa.Table, names: Sequence[str]) -> dict[str, str]:
    """Leave what no step of any rank has out of the printed table."""
    absent = {name for name in _ONLY_IF_ANY if not pc.any(pc.not_equal(table.column(name), 0)).as_py()}
    return {name: HEADINGS[name] for name in names if name not in absent}


def _check_ranks(run: Run) -> None:
    counts = Counter((trace.info.rank, trace.info.cycle) for trace in run.traces)
    (rank, cycle), count = next(iter(counts.most_common(1)), ((0, 0), 0))
    if count > 1:
        files = [
            str(t.file or t.info.source or "memory") for t in run.traces if (t.info.rank, t.info.cycle) == (rank, cycle)
        ]
        msg = (
            f"{count} traces are of cycle {cycle} of rank {rank}: {', '.join(files)}. Expected each rank once. Was a "
            "directory copied into the run, or were two jobs merged? Remove one of them."
        )
        raise TraceFormatError(msg)


def _with_skew(table: pa.Table, matrix: StepMatrix) -> pa.Table:
    """Insert `skew_ns`: how much a rank's own time exceeds that of the others; null if there are no others."""
    row = np.searchsorted(matrix.steps, table.column("step").to_numpy())
    column = np.searchsorted(np.array(matrix.ranks), table.column("rank").to_numpy())
    excess = matrix.excess("own_ns")[row, column] if len(table) else np.zeros(0)
    known = np.isfinite(excess)
    skew = pa.array(np.where(known, excess, 0).astype(np.int64), mask=~known)
    return table.add_column(table.column_names.index("own_ns") + 1, "skew_ns", skew)


def _verdict(steps: RankSteps) -> Iterator[Statement]:
    matrix = steps.matrix
    ranks = len(matrix.ranks)
    common = int(np.isfinite(matrix.times["wall_ns"]).all(axis=1).sum()) if ranks else 0
    if ranks < 2:
        yield statement("single" if ranks else "no_steps")
    elif common < FEWEST_STEPS:
        yield statement("too_few", step_count=common, needed_count=FEWEST_STEPS)
    elif not steps.stragglers:
        yield statement("equal", rank_count=ranks, step_count=common)
    for straggler in steps.stragglers:
        yield from _describe(straggler)


def _describe(straggler: Straggler) -> Iterator[Statement]:
    rank = straggler.rank
    size: dict[str, Value] = {"extra_ns": straggler.extra_ns, "extra_share": straggler.extra_share}
    if straggler.changed:
        yield statement("slow_since", "warning", rank=rank, step=straggler.since, **size)
    else:
        yield statement("slow_always", "warning", rank=rank, **size)
    names = ", ".join(f"{name} +{format_time(extra)}" for name, extra in straggler.names)
    code = f"cause_{straggler.cause}" if names else f"cause_{straggler.cause}_unnamed"
    yield statement(code, rank=rank, cause_ns=straggler.cause_ns, names=names)
    if straggler.waiting_ns:
        yield statement("waited_for", rank=rank, waiting_ns=straggler.waiting_ns)
    certainty: dict[str, Value] = {"step_share": straggler.step_share, "step_count": straggler.step_count}
    yield statement("sure", p_value=_shown_p_value(straggler.p_value), **certainty)


def _shown_p_value(value: float) -> str:
    return f"{value:.1g}" if value >= _SMALLEST_P_VALUE else f"<{_SMALLEST_P_VALUE:.0g}"


def _notices(run: Run, steps: RankSteps) -> Iterator[Statement]:
    yield from _missing(run)
    yield from _died(run)
    yield from _different_steps(steps.matrix)
    off = [clock for clock in steps.clocks.ranks if abs(clock.ahead_ns) > clock.uncertainty_ns]
    if off:
        worst = max(off, key=lambda clock: abs(clock.ahead_ns))
        yield statement(
            f"clocks_by_{steps.clocks.method}",
            rank=worst.rank,
            ahead_ns=int(abs(worst.ahead_ns)),
            unsure_ns=int(max(clock.uncertainty_ns for clock in off)),
            compared_count=steps.clocks.compared_count,
        )


def _missing(run: Run) -> Iterator[Statement]:
    sizes = {m.world_size for m in run.manifests.values()} | {trace.info.world_size for trace in run.traces}
    size = max(sizes, default=1)
    if len(sizes) > 1:
        yield statement("world_sizes", "warning", sizes=", ".join(map(str, sorted(sizes))))
    absent = sorted(set(range(size)) - set(run.ranks))
    if absent:
        named = ", ".join(map(str, absent[:10])) + (", ..." if len(absent) > 10 else "")
        counts = {"missing_count": len(absent), "rank_count": len(run.ranks), "world_count": size}
        yield statement("missing", "warning", ranks=named, **counts)


def _died(run: Run) -> Iterator[Statement]:
    for rank, manifest in sorted(run.manifests.items()):
        if manifest.ended_ns is None and manifest.step_count:
            yield statement("died", "warning", rank=rank, last=manifest.step_count - 1)
        elif manifest.ended_ns is None:
            yield statement("died_early", "warning", rank=rank)


def _different_steps(matrix: StepMatrix) -> Iterator[Statement]:
    if len(matrix.ranks) < 2:
        return
    present = np.isfinite(matrix.times["wall_ns"])
    common = int(present.all(axis=1).sum())
    if common < len(matrix.steps):
        yield statement("different_steps", "warning", common_count=common, step_count=len(matrix.steps))
