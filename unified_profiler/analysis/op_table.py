"""`op_table`: sums up operator calls, with the columns and sort keys of torch's table, for every framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.categories import with_categories
from unified_profiler.analysis.op_calls import NEEDED, call_schema, op_calls
from unified_profiler.analysis.options import check_row_limit, chosen, order_by
from unified_profiler.analysis.sql import load
from unified_profiler.engine import DuckDBEngine, Engine, Result, Source, traces_of
from unified_profiler.errors import ConfigurationError
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.option_effects import needs_synchronization
from unified_profiler.model.statements import Statement, statement

_COLUMNS = (
    *("name", "shapes", "op", "origin", "module", "direction", "category", "kind", "layer", "framework", "thread"),
    *("device", "stack", "step", "cycle", "rank", "host"),
)
GROUPINGS: Mapping[str, tuple[str, ...]] = {name: (name,) for name in _COLUMNS} | {
    "shapes": ("name", "input_shapes"),
    "thread": ("thread", "tid"),
}
"""The choices of `by`, and the columns that each groups by."""

MEASURES: Mapping[str, str] = {
    "self_cpu_share": "Self CPU %",
    "self_cpu_ns": "Self CPU",
    "cpu_share": "CPU total %",
    "cpu_ns": "CPU total",
    "cpu_average_ns": "CPU time avg",
    "self_device_share": "Self device %",
    "self_device_ns": "Self device",
    "device_ns": "Device total",
    "device_average_ns": "Device time avg",
    "cpu_bytes": "CPU Mem",
    "self_cpu_bytes": "Self CPU Mem",
    "device_bytes": "Device Mem",
    "self_device_bytes": "Self device Mem",
    "call_count": "# of Calls",
    "flops": "FLOPs",
}
"""The measured columns and their headings in the printed table."""

TORCH_NAMES = {
    "count": "call_count",
    "key": "name",
    "cpu_time": "cpu_average_ns",
    "cpu_time_total": "cpu_ns",
    "self_cpu_time_total": "self_cpu_ns",
    "cpu_memory_usage": "cpu_bytes",
    "self_cpu_memory_usage": "self_cpu_bytes",
} | {
    f"{prefix}{device}_{torch}": f"{prefix}device_{ours}"
    for device in ("device", "cuda", "xpu", "npu", "privateuse1")
    for prefix in ("", "self_")
    for torch, ours in (("time_total", "ns"), ("memory_usage", "bytes"))
}
TORCH_NAMES |= {f"{device}_time": "device_average_ns" for device in ("device", "cuda", "xpu", "npu", "privateuse1")}
"""The columns by the names of torch's sort keys."""

_SELF_NS = "self_ns"
"""The column that rows are sorted by if nothing else is asked for."""
_OF_DEVICES = frozenset({"self_device_share", "self_device_ns", "device_ns", "device_average_ns"})
_RECORDED_BY = {"input_shapes": "no_shapes", "module": "no_modules", "stack": "no_stacks"}
"""Columns that only an option records, and the sentences that name it."""
_ALWAYS = frozenset({"self_cpu_share", "self_cpu_ns", "cpu_share", "cpu_ns", "cpu_average_ns", "call_count"})
_NEEDED_BY = {"self_device_share": "device_ns", "self_device_ns": "device_ns", "device_average_ns": "device_ns"}


@checked_keywords
def op_table(
    source: Source,
    *,
    by: str | Sequence[str] = "name",
    sort_by: str | None = None,
    row_limit: int | None = None,
    regions: bool = False,
    engine: Engine | None = None,
) -> Result:
    """Sum up the calls of operators in groups, as `key_averages().table()` does in torch.

    Rows are operators, collectives, spans that the framework itself names (such as the optimizer's step), calls of a
    device's runtime, and the device's kernels and copies. Per name, calls, total and self times equal torch's; Python
    frames are in the call tree, hence not in an operator's self time, but have no row. Device time and memory of an
    operator are those of the work it launched and of the allocations made within it. Grouped by anything but name, the
    calls and totals of a group are those of its outermost calls, and device work counts for the operators that
    launched it.

    `self_cpu_share` is of the self times of all rows. `cpu_share` is of the time in which the threads were in any of
    these calls: the same, unless calls contain spans that have no row, such as compilation or work of a thread pool.

    Args:
        source: A Trace or a Run; of a run, all ranks and cycles together unless grouped by them.
        by: One or several of `GROUPINGS`: name, shapes (name and input shapes), op, origin, category, module, step...
        sort_by: A column of the result, its heading, or torch's name of it such as `cpu_time_total` or
            `self_cuda_time_total`; largest first, text and steps in order. If not given, self device time where a
            device worked, else self CPU time.
        row_limit: The most rows to return; shares still refer to all rows.
        regions: Whether steps, regions and compilation have rows too, as they have in torch's table.
        engine: Executes the query; the embedded DuckDB if not given.

    Raises:
        ConfigurationError: `by`, `sort_by` or `row_limit` is invalid.
    """
    keys = _keys(by)
    sorted_by = None if sort_by is None else _sort_column(sort_by, keys)
    check_row_limit(row_limit)
    engine = engine or DuckDBEngine()
    calls = engine.each_trace(
        traces_of(source),
        partial(_calls, keys=keys, regions=regions),
        columns=tuple(dict.fromkeys((*NEEDED, *(key for key in keys if key != "category")))),
        schema=call_schema(keys),
    )
    order = order_by(sorted_by or _SELF_NS, keys=keys, measures={*MEASURES, _SELF_NS})
    sql = load("op_table", keys=", ".join(keys), order=order)
    groups = engine.run(sql, tables={"calls": calls})
    table = groups.drop_columns(["work_ns", "busy_ns", _SELF_NS])
    headings = {**{key: _heading(key) for key in keys}, **_measured(table)}
    remarks = (*_missing(source, groups, keys), *_totals(groups)) if len(groups) else _no_operator()
    return Result(
        table=table.slice(0, row_limit),
        headings=headings,
        footer=tuple(each.text for each in remarks),
        sorted_by=sorted_by or ("self_device_ns" if _has_values(table, "self_device_ns") else "self_cpu_ns"),
        remarks=remarks,
    )


def _calls(events: pa.Table, *, keys: Sequence[str], regions: bool) -> pa.Table:
    return op_calls(with_categories(events) if "category" in keys else events, keys=keys, regions=regions)


def _keys(by: str | Sequence[str]) -> tuple[str, ...]:
    names = (by,) if isinstance(by, str) else tuple(by)
    if not names:
        msg = f"`by` must name at least one of {', '.join(GROUPINGS)}; found nothing."
        raise ConfigurationError(msg)
    columns = [column for name in names for column in chosen("by", name, GROUPINGS)]
    return tuple(dict.fromkeys(columns))


def _sort_column(sort_by: str, keys: tuple[str, ...]) -> str:
    own = {name: name for name in (*keys, *MEASURES)}
    headings = {**{_heading(key): key for key in keys}, **{heading: name for name, heading in MEASURES.items()}}
    column = chosen("sort_by", sort_by, own, other_names={**headings, **TORCH_NAMES})
    if column not in own:
        msg = f"`sort_by` = {sort_by!r} needs the column {column}, which is not a key here: the keys are {keys}."
        raise ConfigurationError(msg)
    return column


def _heading(key: str) -> str:
    return key.replace("_", " ").capitalize()


def _measured(table: pa.Table) -> dict[str, str]:
    """Return the columns of the printed table: those that were recorded, times of devices first."""
    present = [name for name in MEASURES if name in _ALWAYS or _has_values(table, _NEEDED_BY.get(name, name))]
    ordered = sorted(present, key=lambda name: name not in _OF_DEVICES)
    return {name: MEASURES[name] for name in ordered}


def _has_values(table: pa.Table, name: str) -> bool:
    return bool(pc.any(pc.not_equal(table.column(name), 0)).as_py())


def _no_operator() -> tuple[Statement, ...]:
    return (statement("no_operator").with_text("table"),)


def _missing(source: Source, groups: pa.Table, keys: Sequence[str]) -> Iterator[Statement]:
    """Name the option that records a column of the keys that is empty."""
    for key in keys:
        if key in _RECORDED_BY and groups.column(key).null_count == len(groups):
            late = key == "module" and needs_synchronization(chain(*(trace.info.hints for trace in traces_of(source))))
            yield statement("modules_ran_earlier" if late else _RECORDED_BY[key]).with_text("table")


def _totals(groups: pa.Table) -> tuple[Statement, ...]:
    measured = ("self_cpu_ns", "busy_ns", "work_ns")
    cpu, busy, device = (pc.sum(groups.column(name)).as_py() or 0 for name in measured)
    totals = (("self_cpu", cpu, True), ("cpu", busy, busy != cpu), ("self_device", device, device != 0))
    return tuple(
        statement(f"{name}_total", total_ns=total).with_text("table") for name, total, is_shown in totals if is_shown
    )
