"""Each step of each rank, what it waited for, the clocks behind that, and the ranks that are slow."""

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
"""Which facts name what a rank spends its time in."""

MOST_NAMES = 3
"""Operators and regions that are named for each slow rank."""


@dataclass(frozen=True)
class RankSteps:
    """What the ranks of a run did.

    Attributes:
        table: One row per rank and step.
        matrix: The same times by step and rank.
        clocks: How far the ranks' clocks differ.
        stragglers: The ranks that are slow by their own doing, the slowest first.
    """

    table: pa.Table
    matrix: StepMatrix
    clocks: Clocks
    stragglers: Sequence[Straggler]


def rank_steps(run: Run, *, engine: Engine | None = None) -> RankSteps:
    """Work all of it out, reading each trace once."""
    engine = engine or DuckDBEngine()
    facts, meetings = _facts(run, engine)
    clocks = run.clocks or estimate(facts, meetings, engine, run)
    shifts = as_table(None if run.clocks else clocks)
    tables = {"facts": facts, "meetings": meetings, "clocks": shifts}
    table = _finished(engine.run(load("rank_table"), tables=tables), run)
    matrix = StepMatrix.of(table)
    return RankSteps(table, matrix, clocks, _named(stragglers(matrix), facts, engine))


@checked_keywords
def align_clocks(run: Run, *, engine: Engine | None = None) -> Run:
    """Return the run with the times of all ranks corrected to one clock; the run directory stays as it is.

    The clocks of several machines differ. The difference is estimated from the ends of collectives, which are the same
    moment on all ranks, else from the ends of steps. `unified-profiler ranks` saves the estimate as clocks.json, by
    which `read` corrects the run from then on.

    Args:
        run: A run; one whose ranks ran on one machine, or whose clocks are corrected already, is returned as it is.
        engine: What executes the queries; the embedded DuckDB if not given.
    """
    if run.clocks is not None or len(set(machines(run).values())) < 2:
        return run
    engine = engine or DuckDBEngine()
    clocks = estimate(*_facts(run, engine), engine, run)
    return run.by_clocks(clocks)


def _facts(run: Run, engine: Engine) -> tuple[EngineTable, pa.Table]:
    """Return what the traces say about their ranks, and of that the meetings."""
    work = partial(rank_facts, conventions=conventions())
    facts = engine.each_trace(run.traces, work, columns=COLUMNS, schema=FACTS)
    return facts, engine.run(load("meetings"), tables={"facts": facts})


def _finished(table: pa.Table, run: Run) -> pa.Table:
    """Leave out steps that were left before their end, where the run tells which these are."""
    if run.steps is None:
        return table
    keys = zip(run.steps.column("rank").to_pylist(), run.steps.column("step").to_pylist(), strict=True)
    known = set(keys)
    rows = zip(table.column("rank").to_pylist(), table.column("step").to_pylist(), strict=True)
    return table.filter(pa.array([row in known for row in rows], pa.bool_()))


def _named(slow: Sequence[Straggler], facts: EngineTable, engine: Engine) -> list[Straggler]:
    """Say in which operators and regions each slow rank spends more than the others."""
    if not slow:
        return []
    since = pa.table({"rank": [each.rank for each in slow], "since": [each.since for each in slow]})
    found = engine.run(load("straggler_names"), tables={"facts": facts, "slow": since}).to_pylist()
    return [replace(each, names=_largest(each, found)) for each in slow]


def _largest(straggler: Straggler, rows: Sequence[dict[str, object]]) -> tuple[tuple[str, int], ...]:
    wanted = _NAMED_BY.get(straggler.cause, "region")
    names = [
        (str(row["name"]), int(str(row["extra_ns"])))
        for row in rows
        if row["rank"] == straggler.rank and row["what"] == wanted and row["extra_ns"]
    ]
    return tuple((name, extra) for name, extra in names if extra > straggler.extra_ns / 10)[:MOST_NAMES]
