"""Keeps what several analyses compute from the same events, as long as these are in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from unified_profiler.model.schema import EventTable
from unified_profiler.model.table_values import TableValues
from unified_profiler.model.trace import selected_from

_Value = TypeVar("_Value")


def kept(compute: Callable[..., _Value]) -> Callable[..., _Value]:
    """Make a function of the events of a trace, and of options, return its last result again for the same trace.

    Nothing is kept of a trace on disk, of which each analysis reads the columns that it needs. Threads that call the
    function at once may compute the result twice.

    Args:
        compute: Takes the events with at least the columns that it needs. Its result must not refer to the table.
    """
    results: TableValues[tuple[dict[str, Any], _Value]] = TableValues()

    @wraps(compute)
    def look_up(events: EventTable, **options: Any) -> _Value:
        whole = selected_from(events)
        known = results.get(whole)
        if known is None or known[0] != options:
            known = (options, compute(events, **options))
            results.set(whole, known)
        return known[1]

    return look_up
