"""`step_breakdown`: splits the wall time of each step into operators, collectives, copies and compilation."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.sql import load
from unified_profiler.analysis.step_facts import COLUMNS, FACTS, breakdown_facts
from unified_profiler.engine import DuckDBEngine, Engine, Result, Source, traces_of
from unified_profiler.keywords import checked_keywords

_PARTS = ("wall_ns", "op_ns", "collective_ns", "copy_ns", "compile_ns", "uncovered_ns")
_REGIONS = pa.map_(pa.string(), pa.int64())
_SCHEMA = pa.schema(
    {
        **dict.fromkeys(("rank", "cycle", "step"), pa.int32()),
        **dict.fromkeys(_PARTS, pa.int64()),
        "regions_ns": _REGIONS,
    }
)


@checked_keywords
def step_breakdown(source: Source, *, engine: Engine | None = None) -> Result:
    """Split the wall time of each recorded step by the kind of work that ran in it.

    All time of a step counts once, over all threads and devices: in `collective_ns` if a collective ran, else in
    `copy_ns` if a copy ran, else in `compile_ns` if the framework compiled, else in `op_ns` if an operator or kernel
    ran, else in `uncovered_ns`, so that these five add up to `wall_ns`. Work of a device counts for the step during
    which it ran, which may be later than the one that launched it. `regions_ns` has the time of each of the user's
    regions by name; regions contain operators and one another, so each is at most the wall time, not their sum. The
    framework's own annotations, such as torch's `Optimizer.step#...`, are rows of `op_table`.

    Args:
        source: A Trace or a Run.
        engine: Executes the query; the embedded DuckDB if not given.
    """
    engine = engine or DuckDBEngine()
    facts = engine.each_trace(traces_of(source), breakdown_facts, columns=COLUMNS, schema=FACTS)
    table = engine.run(load("step_breakdown"), tables={"facts": facts})
    regions = engine.run(load("step_regions"), tables={"facts": facts})
    table = table.append_column("regions_ns", _regions(table, regions)).cast(_SCHEMA)
    footer = () if len(table) else ("No step was recorded: call step() at the end of each iteration.",)
    return Result(table=table, headings=_headings(table), footer=footer, sorted_by="step")


def _headings(table: pa.Table) -> dict[str, str]:
    """Leave compilation out of the printed table if there was none."""
    compiled = bool(pc.any(pc.greater(table.column("compile_ns"), 0)).as_py())
    return {name: name.removesuffix("_ns") for name in table.column_names if compiled or name != "compile_ns"}


def _regions(steps: pa.Table, regions: pa.Table) -> pa.Array:
    """Return the regions of each step, in the order of the steps."""
    keys = ("rank", "cycle", "step")
    by_step: dict[tuple[Any, ...], list[tuple[str, int]]] = {}
    for *step, name, spent in zip(*(column.to_pylist() for column in regions.columns), strict=True):
        by_step.setdefault(tuple(step), []).append((name, spent))
    rows = zip(*(steps.column(key).to_pylist() for key in keys), strict=True)
    return pa.array([by_step.get(row, []) for row in rows], _REGIONS)
