"""Finds options that had no effect on a trace, or another one than a user may expect, per framework.

Each sentence is in presentation/sentences.en.toml too, as `advice.*`, with its translation.
"""

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
_NO_EFFECT = "{option} had no effect on {framework}: none of its operators has a value for it."
_ASYNCHRONOUS = (
    f"{_NO_EFFECT} Its operators run later than their modules: set api={{{{'synchronize': True}}}} "
    "(`run --api-synchronize`) to have calls wait for them."
)
_MEMORY_TOTALS = (
    "{framework} does not report the memory of single operators; with profile_memory, the totals of its allocator are "
    "recorded as counters."
)
_QUEUED_CALLS = (
    "API calls of {framework} that only queue work do not contain its time, but that of queuing it and of waiting for "
    "earlier work: set api={{'synchronize': True}} (`run --api-synchronize`) to have calls wait for their work."
)


def needs_synchronization(hints: Iterable[str]) -> bool:
    """Return whether hints of a trace state that its operators have no module because they ran later."""
    explanation = _ASYNCHRONOUS.removeprefix(_NO_EFFECT).format()
    return any(explanation in hint for hint in hints)


def without_effect(events: EventTable, options: Collection[str], *, waited: bool) -> Iterator[str]:
    """Yield a sentence for each option that had no effect on the operators of a framework in a trace.

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
    asynchronous = not waited and bool(is_kind(events, Kind.MODULE).any())
    for framework in sorted(frameworks.unique().drop_null().to_pylist()):
        own = operators.filter(pc.equal(frameworks, framework))
        for name in enabled:
            if own[_COLUMNS[name]].null_count < len(own):
                continue
            sentence = _ASYNCHRONOUS if name == "with_modules" and asynchronous else _NO_EFFECT
            if name == "profile_memory" and framework in _frameworks_of(events, Kind.COUNTER):
                sentence = _MEMORY_TOTALS
            yield sentence.format(option=name, framework=framework)


def with_queued_calls(events: EventTable, frameworks: Collection[str], *, waited: bool) -> Iterator[str]:
    """Yield a sentence for each framework whose API calls may end before the work that they queued.

    Args:
        events: The events of the trace.
        frameworks: The frameworks that only queue work.
        waited: Whether API calls waited for the work that they queued.
    """
    if not waited:
        for framework in sorted(_frameworks_of(events, Kind.API_CALL).intersection(frameworks)):
            yield _QUEUED_CALLS.format(framework=framework)


def _frameworks_of(events: EventTable, kind: Kind) -> set[str]:
    """Return the frameworks with events of a kind."""
    return set(events["framework"].filter(pa.array(is_kind(events, kind))).unique().drop_null().to_pylist())
