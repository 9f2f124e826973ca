"""Where the time of each step went."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from unified_profiler.analysis.sql import load
from unified_profiler.engine import DuckDBEngine, Engine, Result, Source, tables_of

_SCHEMA = pa.schema(
    {
        "rank": pa.int32(),
        "cycle": pa.int32(),
        "step": pa.int32(),
        "wall_ns": pa.int64(),
        "op_ns": pa.int64(),
        "collective_ns": pa.int64(),
        "copy_ns": pa.int64(),
        "uncovered_ns": pa.int64(),
        "regions_ns": pa.map_(pa.string(), pa.int64()),
    }
)


def step_breakdown(source: Source, *, engine: Engine | None = None) -> Result:
    """Split the wall time of each recorded step into what ran in it.

    Every moment of a step counts once, over all threads and devices: in `collective_ns` if a collective ran, else in
    `copy_ns` if a copy ran, else in `op_ns` if an operator or kernel ran, else in `uncovered_ns`, so that these four
    add up to `wall_ns`. Work of a device counts for the step in whose time it ran, which may be a later one than
    that which launched it. `regions_ns` has the time of each of the user's regions by name; regions hold operators and
    one another, so each is at most the wall time, not their sum. The framework's own annotations, such as torch's
    `Optimizer.step#...`, are rows of `op_table`.

    Args:
        source: A Trace or a Run.
        engine: What executes the query; the embedded DuckDB if not given.
    """
    found = (engine or DuckDBEngine()).run(load("step_breakdown"), tables={"events": tables_of(source)["events"]})
    step = itemgetter("rank", "cycle", "step")
    rows = [_row(parts) for _, parts in groupby(found.to_pylist(), key=step)]
    footer = () if rows else ("No step was recorded: call step() at the end of each iteration.",)
    return Result(table=pa.Table.from_pylist(rows, schema=_SCHEMA), footer=footer, sorted_by="step")


def _row(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    parts = list(parts)
    first = parts[0]
    busy = {part["part"]: part["busy_ns"] for part in parts if part["region"] is None}
    collective = busy.get(1, 0)
    moved = busy.get(2, 0)
    covered = busy.get(3, 0)
    return {
        "rank": first["rank"],
        "cycle": first["cycle"],
        "step": first["step"],
        "wall_ns": first["wall_ns"],
        "op_ns": covered - moved,
        "collective_ns": collective,
        "copy_ns": moved - collective,
        "uncovered_ns": first["wall_ns"] - covered,
        "regions_ns": [(part["region"], part["busy_ns"]) for part in parts if part["region"] is not None],
    }
