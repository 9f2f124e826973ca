"""Builds the table `calls` for the query of `op_table`: one row per group of calls of operators in a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.analysis.ancestry import nearest, parent_rows
from unified_profiler.analysis.columns import Flags, coded, ints, numbered, ranked
from unified_profiler.analysis.op_tree import OpTree, op_tree
from unified_profiler.model.arrow_arrays import is_null, number_array
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EVENT_SCHEMA, TEXT, EventTable, Kind, Layer

_DEVICE_WORK_KEYS = frozenset({"name", "kind", "device"})
"""Device work gets its own rows, next to the operators that launched it, only if one of these is a key."""

NEEDED = (
    *("id", "parent_id", "name", "kind", "layer", "framework", "device", "start_ns", "duration_ns", "pid", "tid"),
    *("correlation_id", "bytes", "flops", "op", "origin", "direction"),
)
"""The event columns that calls and their categories are computed from."""

_MEASURES = (
    *("counted", "self_cpu_ns", "cpu_ns", "self_device_ns", "device_ns", "self_cpu_bytes", "cpu_bytes"),
    *("self_device_bytes", "device_bytes", "flops", "work_ns", "busy_ns"),
)


def call_schema(keys: Sequence[str]) -> pa.Schema:
    """Return the columns of the table."""
    kinds = {key: EVENT_SCHEMA.field(key).type if key in EVENT_SCHEMA.names else TEXT for key in keys}
    return pa.schema({**kinds, **dict.fromkeys(_MEASURES, pa.int64())})


def op_calls(events: EventTable, *, keys: Sequence[str], regions: bool) -> pa.Table:
    """Return the groups of calls of one trace with their keys and the sums of their measures.

    Grouped by name, every call counts, as in torch. In other groups only the outermost of nested calls counts, since
    its time includes that of the others.
    """
    by_name, group = "name" in keys, _groups(events, keys)
    tree = op_tree(events, regions=regions, merge_duplicates=by_name)
    separate = bool(_DEVICE_WORK_KEYS.intersection(keys))
    shown = shown_calls(events, tree, regions=regions)
    shown |= tree.on_device if separate else tree.on_device & (tree.launcher < 0)
    counted = shown if by_name else outermost(events, shown, group)
    measures = _measures(events, tree, counted)
    self_device = measures["self_device_ns"]
    measures["work_ns"] = np.where(tree.on_device, self_device, 0) if separate else self_device
    measures["busy_ns"] = _busy(tree, parent_rows(events), shown)
    return _summed(events.select(keys), measures, shown, group)


def shown_calls(events: EventTable, tree: OpTree, *, regions: bool = False) -> Flags:
    """Return the operators, collectives, copies, calls of a device's runtime and spans that the framework names.

    Spans of the user and compilation are included on request, Python frames never.
    """
    kind = coded(events, "kind")
    calls = kind.where({Kind.OP.value, Kind.COLLECTIVE.value, Kind.KERNEL.value, Kind.COPY.value}.__contains__)
    launches = kind.where(Kind.RUNTIME.value.__eq__) & (ints(events, "correlation_id") >= 0)
    spans = kind.where({Kind.REGION.value, Kind.STEP.value}.__contains__)
    if regions:
        spans |= kind.where(Kind.COMPILE.value.__eq__)
    else:
        spans &= coded(events, "layer").where(Layer.FRAMEWORK.value.__eq__)
    return tree.node & (calls | launches | spans)


def _measures(events: EventTable, tree: OpTree, counted: Flags) -> dict[str, Ints]:
    """Return self values of every call, and totals only of those that count, since nested calls would add up twice."""
    work = np.where(tree.on_device, ints(events, "duration_ns"), 0)
    return {
        "counted": counted.astype(np.int64),
        "self_cpu_ns": tree.cpu.own,
        "cpu_ns": tree.cpu.total * counted,
        "self_device_ns": tree.device.own + work,
        "device_ns": (tree.device.total + work) * counted,
        "self_cpu_bytes": tree.cpu_memory.own,
        "cpu_bytes": tree.cpu_memory.total * counted,
        "self_device_bytes": tree.device_memory.own,
        "device_bytes": tree.device_memory.total * counted,
        "flops": ints(events, "flops", null=0),
    }


def _summed(keys: pa.Table, measures: Mapping[str, Ints], shown: Flags, group: Ints) -> pa.Table:
    """Sum up the shown calls of each group; a table of all calls would take longer to copy than to sum up."""
    rows = np.flatnonzero(shown)
    group = ranked(group[rows])
    first = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
    first[group[::-1]] = rows[::-1]
    sums = {name: np.zeros(len(first), np.int64) for name in measures}
    for name, values in measures.items():
        if values.any():  # most traces have no device time, no memory or no FLOPs
            np.add.at(sums[name], group, values[rows])
    of_group = keys.take(number_array(first))
    return pa.table({**{name: of_group.column(name) for name in keys.column_names}, **sums})


def _busy(tree: OpTree, parent: Ints, shown: Flags) -> Ints:
    """Return the self time of each shown call with that of the calls inside it that have no row, each counted once."""
    hidden = np.flatnonzero(tree.node & ~shown)
    owner = nearest(parent[hidden], parent=parent, wanted=shown)
    busy = tree.cpu.own.copy()
    np.add.at(busy, owner[owner >= 0], tree.cpu.own[hidden[owner >= 0]])
    return busy


def outermost(events: EventTable, shown: Flags, group: Ints) -> Flags:
    """Return the shown calls that are not inside another one of their group on the same thread."""
    rows = np.flatnonzero(shown)
    start = ints(events, "start_ns")[rows]
    start = start - (start.min() if len(start) else 0)  # times since the epoch would overflow below
    end = start + ints(events, "duration_ns")[rows]
    group = numbered([group[rows], *(ints(events, name)[rows] for name in ("pid", "tid"))])
    order = np.lexsort((-end, start, group))
    offset = group[order] * (int(end.max(initial=0)) + 1)  # concatenates the groups on one time line
    reached = np.maximum.accumulate(end[order] + offset)
    flags = np.zeros(len(shown), np.bool_)
    flags[rows[order]] = np.append(True, (start[order] + offset)[1:] >= reached[:-1])[: len(rows)]
    return flags


def _groups(events: EventTable, keys: Sequence[str]) -> Ints:
    return numbered([values for key in keys for values in _key_values(events, key)])


def _key_values(events: EventTable, key: str) -> Iterator[npt.NDArray[Any]]:
    """Yield a key as numbers, and which are null if that would make null and -1 the same."""
    if events.schema.field(key).type == TEXT:
        yield coded(events, key).codes
        return
    yield ints(events, key)
    if events.column(key).null_count:
        yield is_null(events.column(key))
