"""Finds the synchronizing collectives of a trace, under names by which they are matched with those of other ranks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count

import msgspec
import numpy as np
import pyarrow as pa

from unified_profiler.analysis import step_facts
from unified_profiler.analysis.ancestry import nearest
from unified_profiler.analysis.columns import Flags, coded, ints
from unified_profiler.analysis.critical_path.arrivals import ARRIVALS, arrivals_table
from unified_profiler.analysis.critical_path.columns import COLUMNS, TraceColumns
from unified_profiler.analysis.critical_path.device import Works
from unified_profiler.analysis.sql import load
from unified_profiler.analysis.step_facts import FACTS, KindTimeline
from unified_profiler.engine import Engine
from unified_profiler.engine.contract import PackageQuery
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.model.trace import Trace
from unified_profiler.spi import EventConventions

_SYNCHRONIZING = r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier"


def arrivals_of(
    traces: Sequence[Trace], conventions: Mapping[str, EventConventions], engine: Engine
) -> tuple[pa.Table, dict[tuple[int, int], int]]:
    """Return when ranks arrived in collectives, and when each step, by cycle and number, began on the first rank."""
    if len({trace.info.rank for trace in traces}) < 2:
        return ARRIVALS.empty_table(), {}
    function = partial(collective_facts, conventions=conventions)
    facts = engine.each_trace(traces, function, columns=COLUMNS, schema=FACTS)
    collectives = engine.run(load("synchronizing_collectives"), tables={"facts": facts})
    sql = PackageQuery("select cycle, step, min(start_ns) from facts where fact = 'wall' group by 1, 2")
    steps = engine.run(sql, tables={"facts": facts})
    starts = zip(*(column.to_pylist() for column in steps.columns), strict=True)
    return arrivals_table(collectives), {(cycle, step): start for cycle, step, start in starts}


def collective_facts(events: EventTable, conventions: Mapping[str, EventConventions]) -> pa.Table:
    """Return the steps of a trace and its synchronizing collectives, numbered within their step by name."""
    columns = TraceColumns(events, conventions)
    steps = KindTimeline(events).steps()
    rows, names = synchronizing_collectives(columns)
    step = ints(events, "step")
    within = np.isin(step[rows], steps.number)
    rows, names = rows[within], [name for name, kept in zip(names, within.tolist(), strict=True) if kept]
    order = np.lexsort((columns.start[rows], step[rows]))
    rows, names = rows[order], [names[index] for index in order.tolist()]
    facts = step_facts.facts(
        "synchronizing_collective",
        step[rows],
        name=pa.array(names, pa.string()),
        nth=_occurrences(step[rows], names),
        start=columns.start[rows],
        end=columns.end[rows],
    )
    return step_facts.with_trace_columns(events, [steps.facts("wall", steps.end - steps.start), facts])


def synchronizing_collectives(columns: TraceColumns) -> tuple[Ints, list[str]]:
    """Return the rows and names of collectives on devices, if there are any, else of those on host threads."""
    works = Works.of(columns)
    on_device = columns.is_kind(Kind.COLLECTIVE)[works.row]
    rows, launches = works.row[on_device], works.launch[on_device]
    if not len(rows):
        rows = _host_collectives(columns)
        launches = np.full(len(rows), -1)
    names = _names(columns, rows, launches)
    kept = [name is not None for name in names]
    return rows[np.array(kept, np.bool_)], [name for name in names if name is not None]


def _host_collectives(columns: TraceColumns) -> Ints:
    """Return collectives on threads without operators, which are not only the calls that start them, else all."""
    rows = np.flatnonzero(columns.host & columns.is_kind(Kind.COLLECTIVE))
    op_threads = np.unique(columns.thread[columns.host & columns.is_kind(Kind.OP)])
    separate: Flags = ~np.isin(columns.thread[rows], op_threads)
    return rows[separate] if separate.any() else rows


def _names(columns: TraceColumns, rows: Ints, launches: Ints) -> list[str | None]:
    """Return the name of each collective with the ranks of its group; None if it does not synchronize its ranks.

    Kernels of several collectives may have the same name. What they do is in an attribute, or is the name of the
    collective on the host that launched them.
    """
    frameworks, texts = coded(columns.events, "framework"), columns.events.column("attributes").take(pa.array(rows))
    collective = columns.host & columns.is_kind(Kind.COLLECTIVE)
    launcher = nearest(launches, parent=columns.parent, wanted=collective)
    names: list[str | None] = []
    for row, caller, text in zip(rows.tolist(), launcher.tolist(), texts.to_pylist(), strict=True):
        code = frameworks.codes[row]
        convention = columns.conventions.get(frameworks.values[code] if code >= 0 else "", EventConventions())
        attributes = msgspec.json.decode(text) if text else {}
        candidates = [attributes.get(convention.collective_name_key or ""), _name(columns, row), _name(columns, caller)]
        pattern = re.compile(convention.synchronizing_collectives or _SYNCHRONIZING, re.IGNORECASE)
        name = next((str(each) for each in candidates if each and pattern.search(str(each))), None)
        ranks = attributes.get(convention.collective_ranks_key or "", "")
        names.append(None if name is None else f"{name} {ranks}".strip())
    return names


def _name(columns: TraceColumns, row: int) -> str | None:
    return columns.name.values[columns.name.codes[row]] if row >= 0 else None


def _occurrences(step: Ints, names: Sequence[str]) -> Ints:
    """Return for each row how many rows before it have the same step and name."""
    counters: defaultdict[tuple[int, str], count[int]] = defaultdict(count)
    return np.array([next(counters[pair]) for pair in zip(step.tolist(), names, strict=True)], np.int64)
