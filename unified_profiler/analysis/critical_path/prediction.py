"""`what_if`: predicts step times with other durations, by replaying the graph of the critical path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.columns import ints
from unified_profiler.analysis.critical_path.arrivals import Arrivals
from unified_profiler.analysis.critical_path.changes import Changes
from unified_profiler.analysis.critical_path.collectives import arrivals_of
from unified_profiler.analysis.critical_path.columns import COLUMNS, KINDS
from unified_profiler.analysis.critical_path.construction import TraceGraph, trace_graph
from unified_profiler.analysis.critical_path.loading import with_arriving_batches
from unified_profiler.analysis.critical_path.path import check_recorded, on_one_clock
from unified_profiler.engine import DuckDBEngine, Engine, Events, Result, Source
from unified_profiler.engine.contract import PackageQuery
from unified_profiler.errors import ConfigurationError
from unified_profiler.keywords import checked_keywords, did_you_mean
from unified_profiler.model.columns import look_up
from unified_profiler.model.nesting import Ints
from unified_profiler.model.run import Run
from unified_profiler.model.schema import EventTable
from unified_profiler.model.statements import Statement, statement
from unified_profiler.registry import conventions
from unified_profiler.spi import EventConventions

PREDICTIONS = pa.schema(
    {
        "change": pa.string(),
        **dict.fromkeys(("rank", "cycle", "step"), pa.int32()),
        **dict.fromkeys(("measured_ns", "predicted_ns", "event_count"), pa.int64()),
    }
)
"""Rows of two types: a step with its times, or a `change` with the number of events that it applies to."""

_HEADINGS: Mapping[str, str] = {
    "rank": "Rank",
    "step": "Step",
    "measured_ns": "Measured",
    "predicted_ns": "Predicted",
    "saved_ns": "Saved",
    "saved_share": "Saved share",
}


@dataclass(frozen=True, repr=False)
class WhatIf(Result):
    """The predicted time of each step.

    Attributes:
        verdict: How much shorter or longer a step becomes, in the median over all steps.
        assumptions: What the prediction assumes, as statements.
    """

    verdict: tuple[Statement, ...] = ()
    assumptions: tuple[Statement, ...] = ()


@checked_keywords
def what_if(
    source: Source, changes: Mapping[str, float], *, step: int | None = None, engine: Engine | None = None
) -> WhatIf:
    """Predict how long steps would take if some operators, kernels or waits took more or less time.

    The graph of `critical_path` is replayed with other durations: everything starts as soon as all that it depends on
    has happened. With factors of 1 the prediction is the measurement, to the nanosecond. What is saved is often less
    than the time of the changed operators, since another path becomes critical.

    Args:
        source: A Trace or a Run.
        changes: Factors of durations by name: 0 for no time at all, 0.5 for half, 2 for twice as long. A name is that
            of an operator, region or kernel, a pattern such as `aten::*`, a canonical operator such as `Conv`, a
            category such as `convolution`, or a kind of segment: `gap`, `data`, `launch`, `collective`, `copy`, ... An
            operator includes the operators within it and the work that it launches on a device.
        step: Only this step.
        engine: Executes the queries; the embedded DuckDB if not given.

    Raises:
        ConfigurationError: A change applies to nothing in the recording, or the step was not recorded.

    Example:
        >>> print(what_if(read("profile"), {"aten::conv2d": 0.5, "data": 0}))
    """
    checked, run, engine = Changes.checked(changes), Run.of(source), engine or DuckDBEngine()
    run = on_one_clock(run, engine)
    arrivals, _ = arrivals_of(run.traces, conventions(), engine)
    function = partial(predictions, conventions=conventions(), arrivals=arrivals, changes=checked)
    facts = engine.each_trace(run.traces, function, columns=COLUMNS, schema=PREDICTIONS)
    sql = PackageQuery("select * from facts order by rank nulls last, step nulls last, cycle nulls last, change")
    table = engine.run(sql, tables={"facts": facts})
    _check_matches(table, run, engine)
    table = _steps(table, step)
    check_recorded(table, step=step)
    verdict, assumptions = _verdict(table), _assumptions(run)
    return WhatIf(
        table=table,
        headings=_headings(run),
        footer=tuple(each.text for each in (*verdict, *assumptions)),
        sorted_by="step",
        verdict=verdict,
        assumptions=assumptions,
    )


def predictions(
    events: EventTable, conventions: Mapping[str, EventConventions], arrivals: pa.Table, changes: Changes
) -> pa.Table:
    """Return measured and predicted times of the steps of a trace, and how many events each change applies to."""
    graph = trace_graph(events, conventions, Arrivals.of(events, arrivals))
    if graph is None:
        return PREDICTIONS.empty_table()
    graph = with_arriving_batches(graph)
    replayed = graph.graph.replay(weight=changes.weights(graph), lag=changes.lags(graph))
    rows: list[dict[str, Any]] = list(_predicted_steps(graph, replayed))
    rows += [{"change": name, "event_count": count} for name, count in changes.counts(graph).items()]
    trace = {name: events.column(name)[0].as_py() for name in ("rank", "cycle")}
    return pa.Table.from_pylist([trace | row for row in rows], schema=PREDICTIONS)


def _predicted_steps(trace: TraceGraph, replayed: Ints) -> list[dict[str, Any]]:
    """Return the times of each step: the measured one, and how much the time from step to step changes."""
    steps, time = trace.steps, trace.graph.time
    if not len(steps.number):
        first, last = int(time.min()), int(time.max())
        return [{"measured_ns": last - first, "predicted_ns": int(replayed.max()) - first}]
    begin = np.array([trace.main_point(int(start)) for start in steps.start.tolist()])
    change = _completed(trace, replayed) - _completed(trace, time)
    # A device that is behind the host delays the end of this step and of the one before it.
    overlaps = np.append(False, _completed(trace, time)[:-1] > time[begin[1:]])
    before = np.where(overlaps, np.append(0, change[:-1]), replayed[begin] - time[begin])
    measured = steps.end - steps.start
    predicted = measured + change - before
    rows = zip(steps.number.tolist(), measured.tolist(), predicted.tolist(), strict=True)
    return [{"step": step, "measured_ns": was, "predicted_ns": max(will, 0)} for step, was, will in rows]


def _completed(trace: TraceGraph, time: Ints) -> Ints:
    """Return when each step is complete: at its end, or at the end of its last work on a device."""
    steps = trace.steps
    points = np.array([trace.main_point(int(end)) for end in steps.end.tolist()], np.int64)
    completed = time[points]
    works = trace.work_points
    index = look_up(ints(trace.columns.events, "step")[trace.row[works]], steps.number)
    np.maximum.at(completed, index[index >= 0], time[works[index >= 0]])
    return completed


def _check_matches(table: pa.Table, run: Run, engine: Engine) -> None:
    """Check that each change applies to something.

    Raises:
        ConfigurationError: One applies to nothing.
    """
    counts: dict[str, int] = {}
    for name, count in zip(table.column("change").to_pylist(), table.column("event_count").to_pylist(), strict=True):
        if name is not None:
            counts[name] = counts.get(name, 0) + count
    for name in (name for name, count in counts.items() if not count):
        near = "" if name in KINDS else did_you_mean(name, {*KINDS, *_recorded_names(run, engine)}, at_most=3)
        msg = (
            f"No event of the recording has the name, operator or category {name!r}.{near} "
            "`unified-profiler table` and `op_table` list the operators. The kinds of segments are: "
            f"{', '.join(KINDS)}."
        )
        raise ConfigurationError(msg)


def _recorded_names(run: Run, engine: Engine) -> set[str]:
    """Return the names and canonical operators of all events."""
    sql = PackageQuery("select name from events union select op from events where op is not null")
    return set(engine.run(sql, tables={"events": Events(run.traces)}).column("name").to_pylist())


def _steps(table: pa.Table, step: int | None) -> pa.Table:
    """Return the rows of steps with what is saved in each."""
    kept = table.column("change").is_null().to_numpy()
    if step is not None:
        kept &= ints(table, "step") == step
    table = table.filter(pa.array(kept)).select(["rank", "cycle", "step", "measured_ns", "predicted_ns"])
    measured, predicted = ints(table, "measured_ns"), ints(table, "predicted_ns")
    saved = measured - predicted
    table = table.append_column("saved_ns", pa.array(saved))
    return table.append_column("saved_share", pa.array(saved / np.maximum(measured, 1)))


def _verdict(table: pa.Table) -> tuple[Statement, ...]:
    """Summarize the steps; the median is not affected by the first ones, which are often much longer."""
    if not len(table):
        return ()
    measured, predicted = (int(np.median(ints(table, name))) for name in ("measured_ns", "predicted_ns"))
    share = (measured - predicted) / max(measured, 1)
    code = "shorter" if share > 0 else "longer" if share < 0 else "unchanged"
    values = statement(code, measured_ns=measured, predicted_ns=predicted, change_share=abs(share))
    return (values.with_text("what_if"),)


def _headings(run: Run) -> dict[str, str]:
    return {name: heading for name, heading in _HEADINGS.items() if len(run.traces) > 1 or name != "rank"}


def _assumptions(run: Run) -> tuple[Statement, ...]:
    codes = [
        "order",
        "lags",
        "loading",
        "speed",
        "recording",
        *(["ranks"] if len({trace.info.rank for trace in run.traces}) > 1 else []),
    ]
    return tuple(statement(code).with_text("what_if") for code in codes)
