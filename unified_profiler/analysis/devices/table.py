"""`device_table`: whether each device was working or waiting, in each step, and why it waited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.devices import gaps, work
from unified_profiler.analysis.devices.facts import COMBINATIONS, FACTS, IDLE, TIMES, device_facts, summed
from unified_profiler.analysis.options import chosen
from unified_profiler.engine import DuckDBEngine, Engine, Result, Source, traces_of
from unified_profiler.engine.contract import collected
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.statements import Statement, statement
from unified_profiler.registry import conventions

HEADINGS: Mapping[str, str] = {
    "rank": "Rank",
    "device": "Device",
    "stream": "Stream",
    "step": "Step",
    "span_ns": "Span",
    "busy_ns": "Busy",
    "idle_ns": "Idle",
    "idle_share": "Idle %",
    "compute_ns": "Compute",
    "communication_ns": "Communication",
    "exposed_communication_ns": "Exposed comm.",
    "overlap_ns": "Overlap",
    "copy_ns": "Copies",
    "exposed_copy_ns": "Exposed copies",
    "host_late_ns": "Host late",
    "synchronization_ns": "Synchronization",
    "queue_empty_ns": "Queue empty",
    "other_stream_ns": "Other stream",
    "device_overhead_ns": "Overhead",
    "unknown_ns": "Unknown cause",
    "work_count": "Work",
}
"""The columns and their headings in printed tables; those that are zero everywhere are not printed."""

_ALWAYS = frozenset({"rank", "device", "step", "span_ns", "busy_ns", "idle_ns", "idle_share", "work_count"})
_LANES = {"device": False, "stream": True}
_NO_WORK = "No work of a device was recorded: the trace is of the CPU only, or the device's activity was not recorded."


@dataclass(frozen=True, repr=False)
class DeviceTable(Result):
    """Each device in each step, and the conclusions.

    Attributes:
        devices: One row per device of each rank, or per stream: the same columns for all steps together.
        classes: How long each combination of compute, communication and copies ran at once on each device.
        verdict: How long the devices were idle and why, as statements; none for streams, which may rest.
    """

    devices: Result = field(default_factory=lambda: Result(table=pa.table({})))
    classes: Result = field(default_factory=lambda: Result(table=pa.table({})))
    verdict: tuple[Statement, ...] = ()


@checked_keywords
def device_table(source: Source, *, by: str = "device", engine: Engine | None = None) -> DeviceTable:
    """Measure whether each device was working or waiting, per step, and why it waited.

    Work counts for the step that launched it, whenever it ran. `busy_ns` is the time in which any of the step's work
    ran, and `compute_ns`, `communication_ns` and `copy_ns` those in which work of that class did; `overlap_ns` has
    computation and communication at once, `exposed_communication_ns` communication without computation, and
    `exposed_copy_ns` copies without either. `idle_ns` is the time in which the device did nothing before work of the
    step; its causes add up to it:

    * `host_late_ns`: the host launched the next work only after the device had become idle;
    * `synchronization_ns`: it did so because it was waiting for the device when the device became idle;
    * `queue_empty_ns`: the launch was in progress when the device became idle;
    * `other_stream_ns`: the work had been launched, and began when work of another stream ended;
    * `device_overhead_ns`: the work had been launched, and began after less than 30 us;
    * `unknown_ns`: none of these, or the launch was not recorded.

    `span_ns` is the time from the first to the last of these; it is busy plus idle time, and more only if work of other
    steps ran in between. Times of the host are not part of this table.

    Args:
        source: A Trace or a Run.
        by: `device`, or `stream` for each stream of each device.
        engine: Executes the query; the embedded DuckDB if not given.

    Example:
        >>> print(device_table(read("profile")).devices)
    """
    by_stream = chosen("by", by, _LANES)
    engine = engine or DuckDBEngine()
    function = partial(device_facts, conventions=conventions(), by_stream=by_stream)
    columns = ("rank", "cycle", *work.COLUMNS, *gaps.COLUMNS)
    facts = engine.each_trace(traces_of(source), function, columns=columns, schema=FACTS)
    table = summed(collected(facts, engine))
    rows = table.filter(pc.invert(table.column("whole"))).drop_columns(["whole"])
    whole = table.filter(table.column("whole")).drop_columns(["whole", "cycle", "step"])
    verdict = () if by_stream else tuple(each.with_text("devices") for each in _verdict(whole))
    footer = tuple(each.text for each in verdict) if len(whole) else (_NO_WORK,)
    return DeviceTable(
        table=rows.drop_columns(list(COMBINATIONS)),
        headings=_headings(rows, by_stream=by_stream),
        footer=footer,
        sorted_by="step",
        devices=Result(
            table=whole.drop_columns(list(COMBINATIONS)),
            headings={name: text for name, text in _headings(whole, by_stream=by_stream).items() if name != "step"},
            footer=footer,
        ),
        classes=Result(table=_classes(whole)),
        verdict=verdict,
    )


def _headings(table: pa.Table, *, by_stream: bool) -> dict[str, str]:
    """Return the columns of the printed table: those that are not zero everywhere."""

    def is_shown(name: str) -> bool:
        if name == "stream" or name not in table.column_names:
            return name == "stream" and by_stream
        return name in _ALWAYS or bool(np.any(table.column(name)))

    return {name: heading for name, heading in HEADINGS.items() if is_shown(name)}


def _classes(whole: pa.Table) -> pa.Table:
    """Return one row per device and combination of classes that ran at once."""
    keys = ("rank", "device", "stream")
    rows = [
        {
            **{key: row[key] for key in keys},
            "classes": " + ".join(names),
            "duration_ns": row[name],
            "busy_share": row[name] / row["busy_ns"],
        }
        for row in whole.to_pylist()
        for name, names in COMBINATIONS.items()
        if row[name]
    ]
    types = {**{key: whole.schema.field(key).type for key in keys}, "classes": pa.string(), "duration_ns": pa.int64()}
    return pa.Table.from_pylist(rows, schema=pa.schema({**types, "busy_share": pa.float64()}))


def _verdict(whole: pa.Table) -> Iterator[Statement]:
    rows = whole.to_pylist()
    if not rows:
        return
    total: dict[str, int] = {name: sum(row[name] for row in rows) for name in (*TIMES, *IDLE)}
    if not total["span_ns"]:
        return
    yield _idle(rows, total)
    cause = max(IDLE, key=lambda name: total[name])
    if total[cause]:
        share = total[cause] / total["span_ns"]
        yield statement(f"cause_{cause.removesuffix('_ns')}", cause_share=share, cause_ns=total[cause])
    if total["communication_ns"]:
        exposed = total["exposed_communication_ns"]
        yield statement(
            "communication",
            communication_ns=total["communication_ns"],
            exposed_ns=exposed,
            exposed_share=exposed / total["communication_ns"],
        )


def _idle(rows: list[dict[str, Any]], total: Mapping[str, int]) -> Statement:
    share = total["idle_ns"] / total["span_ns"]
    if len(rows) == 1:
        return statement("idle", device=rows[0]["device"], idle_share=share, span_ns=total["span_ns"])
    most, least = (pick(rows, key=lambda row: row["idle_share"] or 0.0) for pick in (max, min))
    return statement(
        "idle_of_several",
        device_count=len(rows),
        idle_share=share,
        least_share=least["idle_share"],
        least=_name(least),
        most_share=most["idle_share"],
        most=_name(most),
    )


def _name(row: Mapping[str, Any]) -> str:
    return f"rank {row['rank']} {row['device']}"
