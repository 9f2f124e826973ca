"""Computes the time of each step on each rank, the offsets of the ranks' clocks, and the slow ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from unified_profiler.analysis.clocks import as_table, estimate, machines
from unified_profiler.analysis.rank_facts import COLUMNS, rank_facts
from unified_profiler.analysis.sql import load
from unified_profiler.analysis.step_facts import FACTS
from unified_profiler.analysis.stragglers import StepMatrix, Straggler, stragglers
from unified_profiler.engine import DuckDBEngine, Engine, EngineTable
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.clocks import Clocks
from unified_profiler.model.run import Run
from unified_profiler.registry import conventions

_NAMED_BY = {"compute": "operator", "copy": "operator", "data": "loading"}
"""The fact that names what a rank spends its time in, by the part of the step that grew; regions for the others."""

MOST_NAMES = 3
"""Operators and regions that are named for each slow rank."""


@dataclass(frozen=True)
class RankSteps:
    """The steps of all ranks of a run.

    Attributes:
        table: One row per rank and step.
        matrix: The same times by step and rank.
        clocks: The offsets of the ranks' clocks.
        stragglers: The ranks that are slow because of their own work, the slowest first.
    """

    table: pa.Table
    matrix: StepMatrix
    clocks: Clocks
    stragglers: Sequence[Straggler]


def rank_steps(run: Run, *, engine: Engine | None = None) -> RankSteps:
    """Compare the steps of all ranks, reading each trace once."""
    engine = engine or DuckDBEngine()
    facts, collectives = _facts(run, engine)
    clocks = run.clocks or estimate(facts, collectives, engine, run)
    offsets = as_table(None if run.clocks else clocks)
    tables = {"facts": facts, "collectives": collectives, "clocks": offsets}
    table = _finished_steps(engine.run(load("rank_table"), tables=tables), run)
    matrix = StepMatrix.of(table)
    return RankSteps(table, matrix, clocks, _with_names(stragglers(matrix), facts, engine))


@checked_keywords
def align_clocks(run: Run, *, engine: Engine | None = None) -> Run:
    """Return the run with the times of all ranks corrected to one clock; the run directory is not changed.

    The clocks of several machines differ. The difference is estimated from the ends of collectives, which all ranks
    leave at the same time, else from the ends of steps. `unified-profiler ranks` saves the estimate as clocks.json,
    and `read` corrects the run by it from then on.

    Args:
        run: A run. It is returned unchanged if all ranks ran on one machine or its clocks are corrected already.
        engine: Executes the queries; the embedded DuckDB if not given.
    """
    if run.clocks is not None or len(set(machines(run).values())) < 2:
        return run
    engine = engine or DuckDBEngine()
    return run.by_clocks(estimate(*_facts(run, engine), engine, run))


def _facts(run: Run, engine: Engine) -> tuple[EngineTable, pa.Table]:
    """Return the facts of all traces, and the synchronizing collectives among them."""
    function = partial(rank_facts, conventions=conventions())
    facts = engine.each_trace(run.traces, function, columns=COLUMNS, schema=FACTS)
    return facts, engine.run(load("synchronizing_collectives"), tables={"facts": facts})


def _finished_steps(table: pa.Table, run: Run) -> pa.Table:
    """Drop steps that were left before their end, where the run has a list of finished steps."""
    if run.steps is None:
        return table
    finished = set(zip(run.steps.column("rank").to_pylist(), run.steps.column("step").to_pylist(), strict=True))
    rows = zip(table.column("rank").to_pylist(), table.column("step").to_pylist(), strict=True)
    return table.filter(pa.array([row in finished for row in rows], pa.bool_()))


def _with_names(slow: Sequence[Straggler], facts: EngineTable, engine: Engine) -> list[Straggler]:
    """Add to each slow rank the operators and regions in which it spends more time than the others."""
    if not slow:
        return []
    since = pa.table({"rank": [each.rank for each in slow], "since": [each.since for each in slow]})
    rows = engine.run(load("straggler_names"), tables={"facts": facts, "slow": since}).to_pylist()
    return [replace(each, names=_largest(each, rows)) for each in slow]


def _largest(straggler: Straggler, rows: Sequence[dict[str, object]]) -> tuple[tuple[str, int], ...]:
    fact = _NAMED_BY.get(straggler.cause, "region")
    names = [
        (str(row["name"]), int(str(row["extra_ns"])))
        for row in rows
        if row["rank"] == straggler.rank and row["fact"] == fact and row["extra_ns"]
    ]
    return tuple((name, extra) for name, extra in names if extra > straggler.extra_ns / 10)[:MOST_NAMES]
