"""Creates the notices of a diff: reasons why its numbers may mislead."""

from __future__ import annotations

from collections.abc import Iterator

from unified_profiler.comparison.pieces import COMPILED
from unified_profiler.comparison.records import DiffRecord, DiffRow, Side
from unified_profiler.model.statements import Statement, statement

FEWEST_STEPS = 3
_OVERLAPPING = 1.1
"""The ratio of operator time to wall time above which operators must have overlapped."""
_COSTLY = 1.2
"""The ratio of recorded to unrecorded step time above which profiling overhead distorts the numbers."""
_MUCH = 0.05
"""The share of a side's time above which a notice is created."""
_HALF = 0.5
_ONE_PERCENT = 0.01


def notices_of(diff: DiffRecord) -> tuple[Statement, ...]:
    """Return the notices, the most serious first."""
    notices = [*_steps(diff), *_frameworks(diff), *_machines(diff)]
    for name, side in (("baseline", diff.baseline), ("candidate", diff.candidate)):
        notices += [*_names(diff, name, side), *_times(diff, name, side)]
    return tuple(statement.with_text("diff") for statement in notices)


def _steps(diff: DiffRecord) -> Iterator[Statement]:
    fewest = min(diff.baseline.step_count, diff.candidate.step_count)
    if fewest == 0:
        yield statement("no_steps", "warning")
    elif fewest < FEWEST_STEPS:
        yield statement("few_steps", "warning", step_count=fewest)
    if diff.baseline.ranks != diff.candidate.ranks:
        counts = {"baseline_count": len(diff.baseline.ranks), "candidate_count": len(diff.candidate.ranks)}
        yield statement("different_ranks", "warning", **counts)


def _frameworks(diff: DiffRecord) -> Iterator[Statement]:
    if not diff.across_frameworks:
        return
    unnamed = max(diff.baseline.unnamed_share, diff.candidate.unnamed_share)
    if diff.by == "op":
        yield statement("by_kernel", "warning")
    elif diff.by == "origin" and unnamed > _HALF:
        yield statement("without_origins", "warning", unnamed_share=unnamed)
    elif diff.by in {"name", "module"}:
        yield statement("names_differ", "warning", by=diff.by)


def _machines(diff: DiffRecord) -> Iterator[Statement]:
    if bool(diff.baseline.device_ns) != bool(diff.candidate.device_ns) and diff.time == "host":
        yield statement("one_device", "warning", side="baseline" if diff.baseline.device_ns else "candidate")
    threads = {"baseline_count": diff.baseline.thread_count, "candidate_count": diff.candidate.thread_count}
    if diff.time == "host" and diff.baseline.thread_count != diff.candidate.thread_count:
        yield statement("different_threads", "info", **threads)
    if diff.drift_ratio is not None and abs(diff.drift_ratio - 1) > diff.threshold:
        yield statement("drift", "info", drift_ratio=diff.drift_ratio)


def _names(diff: DiffRecord, name: str, side: Side) -> Iterator[Statement]:
    if diff.by in {"origin", "op"} and _MUCH < side.unnamed_share <= _HALF:
        yield statement("unnamed_part", "info", side=name, unnamed_share=side.unnamed_share)
    compiled = sum(_time_of(row, name) for row in _leaves(diff.rows) if row.name == COMPILED) / max(side.total_ns, 1)
    if compiled > _ONE_PERCENT:
        yield statement("compiled", "warning", side=name, compiled_share=compiled)


def _times(diff: DiffRecord, name: str, side: Side) -> Iterator[Statement]:
    measured = getattr(diff.total, name)
    if diff.time == "host" and side.step_ns and measured.time_ns > _OVERLAPPING * side.step_ns:
        busy = {"busy_ratio": measured.time_ns / side.step_ns, "thread_count": side.thread_count}
        yield statement("overlap", "warning", side=name, **busy)
    if side.overhead_ratio is not None and side.overhead_ratio > _COSTLY:
        yield statement("overhead", "info", side=name, overhead_ratio=side.overhead_ratio)
    if side.outside_steps_ns > _MUCH * max(side.total_ns, 1):
        yield statement("outside_steps", "info", side=name, outside_ns=side.outside_steps_ns)


def _leaves(rows: tuple[DiffRow, ...]) -> Iterator[DiffRow]:
    for row in rows:
        yield row
        yield from _leaves(row.rows)


def _time_of(row: DiffRow, side: str) -> int:
    measured = getattr(row, side)
    return 0 if measured is None else int(measured.total_ns)
