"""`api_table`: sums up the calls of each function of a framework's public API."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.ancestry import nearest, parent_rows, self_time
from unified_profiler.analysis.columns import coded, ints
from unified_profiler.analysis.options import check_row_limit, chosen, order_by
from unified_profiler.analysis.sql import load
from unified_profiler.engine import DuckDBEngine, Engine, Result, Source, traces_of
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.schema import TEXT, EventTable, Kind
from unified_profiler.model.statements import Statement, statement

KEYS: Mapping[str, str] = {"name": "Name", "framework": "Framework"}
MEASURES: Mapping[str, str] = {
    "self_share": "Self %",
    "self_ns": "Self",
    "total_ns": "Total",
    "mean_ns": "Mean",
    "min_ns": "Min",
    "max_ns": "Max",
    "call_count": "# of Calls",
}
"""The measured columns and their headings in the printed table."""

_NEEDED = ("id", "parent_id", "kind", "name", "framework", "duration_ns")
_CALLS = pa.schema({"name": TEXT, "framework": TEXT, "duration_ns": pa.int64(), "self_ns": pa.int64()})


@checked_keywords
def api_table(
    source: Source, *, sort_by: str | None = None, row_limit: int | None = None, engine: Engine | None = None
) -> Result:
    """Sum up the calls of each API: count, total, mean, shortest, longest and self time.

    The self time of a call is its duration less that of the API calls directly inside it, whatever operators, modules
    or regions lie between; without `inside` only calls made by user code are recorded, and few are nested. Self times
    add up to the time spent in the API, and `self_share` is the share of that sum. Totals include the calls inside, so
    they add up to more.

    Args:
        source: A Trace or a Run that was recorded with `api=True`; of a run, all ranks and cycles together.
        sort_by: A column of the result, or its heading; largest first, text in order. Self time if not given.
        row_limit: The most rows to return; shares still refer to all rows.
        engine: Executes the query; the embedded DuckDB if not given.

    Raises:
        ConfigurationError: `sort_by` or `row_limit` is invalid.
    """
    names = {**KEYS, **MEASURES}
    columns, headings = {name: name for name in names}, {heading: name for name, heading in names.items()}
    column = chosen("sort_by", sort_by or "self_ns", columns, other_names=headings)
    check_row_limit(row_limit)
    engine = engine or DuckDBEngine()
    calls = engine.each_trace(traces_of(source), _calls, columns=_NEEDED, schema=_CALLS)
    sql = load("api_table", order=order_by(column, keys=tuple(KEYS), measures=MEASURES))
    table = engine.run(sql, tables={"calls": calls})
    remark = _remark(table)
    return Result(
        table=table.slice(0, row_limit),
        headings=_headings(table),
        footer=(remark.text,),
        sorted_by=column,
        remarks=(remark,),
    )


def _calls(events: EventTable) -> pa.Table:
    """Return the API calls of one trace, one row each."""
    node = coded(events, "kind").where(Kind.API_CALL.value.__eq__)
    direct = parent_rows(events)
    parent = nearest(direct, parent=direct, wanted=node)
    own = self_time(ints(events, "duration_ns"), parent, node)
    table = events.select(["name", "framework", "duration_ns"]).append_column("self_ns", pa.array(own))
    return table.filter(pa.array(node))


def _headings(table: pa.Table) -> dict[str, str]:
    """Leave the framework out of the printed table unless there are several."""
    several = pc.count_distinct(table.column("framework"), mode="all").as_py() > 1
    keys = KEYS if several else {"name": KEYS["name"]}
    return {**keys, **MEASURES}


def _remark(table: pa.Table) -> Statement:
    if not len(table):
        return statement("no_api_call").with_text("table")
    return statement("api_total", total_ns=pc.sum(table.column("self_ns")).as_py()).with_text("table")
