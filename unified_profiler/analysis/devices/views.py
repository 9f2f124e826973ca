"""The tables of device work that analyses select from, and that `query` offers beside the events."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from unified_profiler.analysis.devices import gap_rows, pieces, work
from unified_profiler.analysis.devices.queues import QUEUES, queue_lengths
from unified_profiler.engine import Engine, EngineTable, Source, traces_of
from unified_profiler.registry import conventions

DESCRIBED_GAPS = 20
"""How many of the longest gaps of each trace state what the host did meanwhile."""


@dataclass(frozen=True)
class View:
    """A table that is computed from the events of each trace."""

    columns: tuple[str, ...]
    schema: pa.Schema
    function: Callable[[list[str]], Callable[[pa.Table], pa.Table]]
    """Returns the function that computes some columns of the rows of one trace, or more than these."""


def _gaps(*, by_stream: bool) -> Callable[[pa.Table], pa.Table]:
    return partial(gap_rows.gap_rows, conventions=conventions(), by_stream=by_stream, described=DESCRIBED_GAPS)


def _pieces(names: list[str]) -> Callable[[pa.Table], pa.Table]:
    return partial(pieces.work_pieces, conventions=conventions(), names=names)


VIEWS: Mapping[str, View] = {
    "device_work": View(pieces.COLUMNS, pieces.PIECES, _pieces),
    "device_gaps": View(gap_rows.COLUMNS, gap_rows.GAPS, lambda _: _gaps(by_stream=False)),
    "stream_gaps": View(gap_rows.COLUMNS, gap_rows.GAPS, lambda _: _gaps(by_stream=True)),
    "launch_queue": View(("rank", "cycle", *work.COLUMNS), QUEUES, lambda _: queue_lengths),
}
"""The views by name."""


def view(name: str, source: Source, engine: Engine, *, named_in: str | None = None) -> EngineTable:
    """Compute a view of a Trace or a Run.

    Args:
        name: The view.
        source: The Trace or Run.
        engine: Applies the function of the view to each trace.
        named_in: The query that selects from the view; columns that it does not name are left out.
    """
    wanted = VIEWS[name]
    words = None if named_in is None else set(re.findall(r"\w+", named_in))
    schema = pa.schema([field for field in wanted.schema if words is None or field.name in words])
    function = partial(_columns_of, wanted.function(schema.names), schema.names)
    return engine.each_trace(traces_of(source), function, columns=wanted.columns, schema=schema)


def _columns_of(function: Callable[[pa.Table], pa.Table], names: list[str], events: pa.Table) -> pa.Table:
    return function(events).select(names)


def views_in(sql: str, source: Source, engine: Engine) -> dict[str, EngineTable]:
    """Return the views that a query names."""
    return {name: view(name, source, engine) for name in VIEWS if re.search(rf"\b{name}\b", sql, re.IGNORECASE)}
