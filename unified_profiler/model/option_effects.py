"""Which of the options that were asked for left nothing in a trace, per framework."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.schema import EventTable, Kind

_COLUMNS = {
    "record_shapes": "input_shapes",
    "profile_memory": "bytes",
    "with_stack": "stack",
    "with_flops": "flops",
    "with_modules": "module",
}
OPTIONS = tuple(_COLUMNS)
"""Options whose effect is seen in a column of their own."""
_LATER = (
    " Its operators run later than their modules: give api={'synchronize': True} (`run --api-synchronize`) "
    "to have calls wait for them."
)


def without_effect(events: EventTable, options: Collection[str], *, waited: bool) -> Iterator[str]:
    """Name options without effect on a framework that has operators in a trace, in words.

    Args:
        events: The events of the trace.
        options: The options that were asked for and that the backends of the trace have.
        waited: Whether calls of modules waited for the work that they queued.
    """
    wanted = [name for name in _COLUMNS if name in options]
    if not wanted:
        return
    of_interest = pc.is_in(events["kind"].cast("string"), pa.array([Kind.OP.value, Kind.MEMORY.value]))
    operators = events.filter(of_interest).select(["framework", *(_COLUMNS[name] for name in wanted)])
    frameworks = operators["framework"].cast("string")
    for framework in sorted(frameworks.unique().drop_null().to_pylist()):
        own = operators.filter(pc.equal(frameworks, framework))
        for name in wanted:
            if own[_COLUMNS[name]].null_count == len(own):
                remedy = _LATER if name == "with_modules" and not waited and _has_modules(events) else ""
                yield f"{name} had no effect on {framework}: none of its operators has such a value.{remedy}"


def _has_modules(events: EventTable) -> bool:
    return bool(pc.any(pc.equal(events["kind"], Kind.MODULE.value)).as_py())
