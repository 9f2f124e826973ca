"""From a Trace or a Run to the tables that queries see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from unified_profiler.errors import UsageError
from unified_profiler.model.run import Run
from unified_profiler.model.schema import empty_table
from unified_profiler.model.trace import Trace

Source: TypeAlias = Trace | Run
"""What analyses and queries take."""


def traces_of(source: Source) -> Sequence[Trace]:
    """Return the traces of a run, or the one trace.

    Raises:
        UsageError: It is neither a Trace nor a Run.
    """
    if isinstance(source, Trace):
        return (source,)
    if isinstance(source, Run):
        return source.traces
    msg = (
        f"Expected a Trace or a Run, found {type(source).__name__}. "
        "Take one of `Profiler.traces`, or read a file or a run directory with unified_profiler.read(path)."
    )
    raise UsageError(msg)


def tables_of(source: Source) -> dict[str, pa.Table]:
    """Return `events`, all events of all traces, and `steps` where the run has them."""
    events = [trace.events for trace in traces_of(source)]
    tables = {"events": pa.concat_tables(events) if events else empty_table()}
    if isinstance(source, Run) and source.steps is not None:
        tables["steps"] = source.steps
    return tables
