"""Finds enabled recording options that had no effect on a trace, per framework."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.nesting import is_kind
from unified_profiler.model.schema import EventTable, Kind

_COLUMNS = {
    "record_shapes": "input_shapes",
    "profile_memory": "bytes",
    "with_stack": "stack",
    "with_flops": "flops",
    "with_modules": "module",
}
OPTIONS = tuple(_COLUMNS)
"""Options that fill a column of their own."""
_ASYNCHRONOUS_HINT = (
    " Its operators run later than their modules: set api={'synchronize': True} (`run --api-synchronize`) "
    "to have calls wait for them."
)


def needs_synchronization(hints: Iterable[str]) -> bool:
    """Return whether hints of a trace state that its operators have no module because they ran later."""
    return any(_ASYNCHRONOUS_HINT in hint for hint in hints)


def without_effect(events: EventTable, options: Collection[str], *, waited: bool) -> Iterator[str]:
    """Yield a sentence for each option that had no effect on a framework with operators in a trace.

    Args:
        events: The events of the trace.
        options: The enabled options that the backends of the trace support.
        waited: Whether module calls waited for the work that they queued.
    """
    enabled = [name for name in _COLUMNS if name in options]
    if not enabled:
        return
    has_columns = pa.array(is_kind(events, Kind.OP) | is_kind(events, Kind.MEMORY))
    operators = events.select(["framework", *(_COLUMNS[name] for name in enabled)]).filter(has_columns)
    frameworks = operators["framework"].cast("string")
    hint = "" if waited or not is_kind(events, Kind.MODULE).any() else _ASYNCHRONOUS_HINT
    for framework in sorted(frameworks.unique().drop_null().to_pylist()):
        own = operators.filter(pc.equal(frameworks, framework))
        for name in enabled:
            if own[_COLUMNS[name]].null_count == len(own):
                remedy = hint if name == "with_modules" else ""
                yield f"{name} had no effect on {framework}: none of its operators has a value for it.{remedy}"
