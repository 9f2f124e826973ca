"""`step_breakdown`: splits the wall time of each step by what the host did: data, operators, collectives, copies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.columns import coded
from unified_profiler.analysis.data_loading import data_loading
from unified_profiler.analysis.devices.work import is_accelerator
from unified_profiler.analysis.intervals import EMPTY
from unified_profiler.analysis.sql import load
from unified_profiler.analysis.step_facts import (
    COLUMNS,
    FACTS,
    KindTimeline,
    part_facts,
    region_facts,
    with_trace_columns,
)
from unified_profiler.engine import DuckDBEngine, Engine, Result, Source, traces_of
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.model.statements import statement
from unified_profiler.registry import conventions
from unified_profiler.spi import EventConventions

_PARTS = {
    "wall_ns": "Wall",
    "data_ns": "Data",
    "op_ns": "Operators",
    "collective_ns": "Collectives",
    "copy_ns": "Copies",
    "compile_ns": "Compilation",
    "uncovered_ns": "Uncovered",
}
"""The wall time of a step and its parts, with their headings."""
_ONLY_IF_ANY = frozenset({"data_ns", "collective_ns", "copy_ns", "compile_ns"})
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
    """Split the wall time of each recorded step by what the host did in it.

    All time of a step counts once, over all threads: in `data_ns` if the program loaded data or waited for it, else in
    `collective_ns` if a collective ran, else in `copy_ns` if a copy ran, else in `compile_ns` if the framework
    compiled, else in `op_ns` if an operator ran, else in `uncovered_ns`, so that these six add up to `wall_ns`. The
    work of devices is not part of it: see `device_table`. `regions_ns` has the time of each of the user's
    regions by name; regions contain operators and one another, so each is at most the wall time, not their sum. The
    framework's own annotations, such as torch's `Optimizer.step#...`, are rows of `op_table`.

    Args:
        source: A Trace or a Run.
        engine: Executes the query; the embedded DuckDB if not given.
    """
    engine = engine or DuckDBEngine()
    function = partial(breakdown_facts, conventions=conventions())
    columns = (*COLUMNS, "device", "framework")
    facts = engine.each_trace(traces_of(source), function, columns=columns, schema=FACTS)
    table = engine.run(load("step_breakdown"), tables={"facts": facts})
    regions = engine.run(load("step_regions"), tables={"facts": facts})
    table = table.append_column("regions_ns", _regions(table, regions)).cast(_SCHEMA)
    remarks = () if len(table) else (statement("no_step").with_text("table"),)
    footer = tuple(each.text for each in remarks)
    return Result(table=table, headings=_headings(table), footer=footer, sorted_by="step", remarks=remarks)


def breakdown_facts(events: EventTable, conventions: Mapping[str, EventConventions]) -> pa.Table:
    """Return the wall time of each step of one trace, its parts, and its regions."""
    timeline = KindTimeline(_on_host(events))
    steps = timeline.steps()
    order = (
        ("data", reduce(or_, data_loading(timeline, conventions).values(), EMPTY)),
        ("collective", timeline.busy(Kind.COLLECTIVE)),
        ("copy", timeline.busy(Kind.COPY)),
        ("compile", timeline.busy(Kind.COMPILE)),
        ("op", timeline.busy(Kind.OP, Kind.KERNEL)),
    )
    return with_trace_columns(events, [*part_facts(steps, order), *region_facts(timeline, steps)])


def _on_host(events: EventTable) -> EventTable:
    on_device = coded(events, "device").where(is_accelerator)
    return events.filter(pa.array(~on_device)) if on_device.any() else events


def _headings(table: pa.Table) -> dict[str, str]:
    """Leave parts that no step has, regions if there are none, and a single cycle out of the printed table."""
    absent = {name for name in _ONLY_IF_ANY if not pc.any(pc.greater(table.column(name), 0)).as_py()}
    headings = {name: heading for name, heading in _PARTS.items() if name not in absent}
    if any(table.column("regions_ns").to_pylist()):
        headings["regions_ns"] = "Regions"
    cycle = {"cycle": "Cycle"} if pc.count_distinct(table.column("cycle")).as_py() > 1 else {}
    return {"rank": "Rank", **cycle, "step": "Step", **headings}


def _regions(steps: pa.Table, regions: pa.Table) -> pa.Array:
    """Return the regions of each step, in the order of the steps."""
    keys = ("rank", "cycle", "step")
    by_step: dict[tuple[Any, ...], list[tuple[str, int]]] = {}
    for *step, name, spent in zip(*(column.to_pylist() for column in regions.columns), strict=True):
        by_step.setdefault(tuple(step), []).append((name, spent))
    rows = zip(*(steps.column(key).to_pylist() for key in keys), strict=True)
    return pa.array([by_step.get(row, []) for row in rows], _REGIONS)
