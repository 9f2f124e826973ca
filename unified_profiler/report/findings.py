"""Summarizes in a few sentences where the time of a run went."""

from __future__ import annotations

from collections.abc import Iterator

from unified_profiler.analysis import Result
from unified_profiler.model.statements import Statement, Value, statement
from unified_profiler.report.records import SummaryRecord

SLOW = 1.5
"""A step is reported as slow from this multiple of the median on."""

_ROUND_STEPS = 5
"""Suggested numbers of steps are rounded up to a multiple of this."""
_UNCLEAR = {
    "starved": "step_starved",
    "few_steps": "step_few_unrecorded",
    "falling": "step_still_falling",
    "scatter": "step_no_overhead",
}


def findings(summary: SummaryRecord, operators: Result) -> tuple[Statement, ...]:
    """Return the findings, most general first.

    Args:
        summary: The summary, still without findings.
        operators: All operators, of which the summary contains only the first ones.
    """
    typical = summary.dominating_step is not None and not any(row["self_device_ns"] for row in summary.categories)
    largest = _typical_step(summary) if typical else [*_category(summary), *_operator(operators)]
    statements = [*_step(summary), *_parts(summary), *largest, *_slow_step(summary), *_memory(summary)]
    return tuple(statement.with_text("finding") for statement in statements)


def _step(summary: SummaryRecord) -> Iterator[Statement]:
    steps = summary.steps
    if steps.recorded_step_ns is None:
        return
    values: dict[str, Value] = {"recorded_step_ns": steps.recorded_step_ns, "recorded_count": steps.recorded_count}
    if steps.unrecorded_step_ns is None:
        yield statement("step", **values)
        return
    values |= {"unrecorded_step_ns": steps.unrecorded_step_ns, "unrecorded_count": steps.unrecorded_count}
    if steps.overhead_unclear is None:
        yield statement("step_overhead", **values, overhead_ratio=steps.overhead_ratio)
    else:
        yield statement(_UNCLEAR[steps.overhead_unclear], **values)
    if steps.overhead_unclear == "falling":
        yield from record_later(steps.steady_step)


def record_later(steady_step: int | None) -> Iterator[Statement]:
    """Advise to record later steps of a program that was still warming up, if its steps became steady.

    Args:
        steady_step: The step from which step times no longer fell.
    """
    if steady_step is not None:
        wait = -(-steady_step // _ROUND_STEPS) * _ROUND_STEPS
        yield statement("record_later", step=steady_step, wait=wait)


def _parts(summary: SummaryRecord) -> Iterator[Statement]:
    parts = summary.step_parts
    if not parts.wall_ns:
        return
    moved = ("collective", "copy") if parts.collective_ns or parts.copy_ns else ()
    shares = {f"{name}_share": getattr(parts, f"{name}_ns") / parts.wall_ns for name in ("op", "uncovered", *moved)}
    code = "parts_moved" if moved else "parts"
    yield statement(f"{code}_host" if summary.devices else code, **shares)
    if parts.data_ns:
        yield statement("data", data_share=parts.data_ns / parts.wall_ns)
    if parts.compile_ns:
        yield statement("compile", compile_share=parts.compile_ns / parts.wall_ns)


def _category(summary: SummaryRecord) -> Iterator[Statement]:
    """Name the category with the largest device time, or CPU time without a device."""
    on_device = any(row["self_device_ns"] for row in summary.categories)
    measure = "self_device" if on_device else "self_cpu"
    rows = sorted(summary.categories, key=lambda row: row[f"{measure}_ns"], reverse=True)
    named = [row for row in rows if row["category"] != "other" and row[f"{measure}_ns"]]
    if named:
        code = "category_device" if on_device else "category"
        yield statement(code, category=named[0]["category"], self_share=named[0][f"{measure}_share"])


def _operator(operators: Result) -> Iterator[Statement]:
    """Name the operator or kernel with the largest device time, or CPU time without a device."""
    if not len(operators):
        return
    on_device = max(operators.rows, key=lambda row: row.self_device_ns)
    if on_device.self_device_ns:
        row, code, share = on_device, "operator_device", on_device.self_device_share
    else:
        row = operators.rows[0]
        code, share = "operator", row.self_cpu_share
    yield statement(code, name=row.name, self_share=share, call_count=row.call_count)


def _typical_step(summary: SummaryRecord) -> Iterator[Statement]:
    """Name the category and operator with the largest time in a typical step, for runs that one step dominates."""
    total = sum(row["step_self_cpu_ns"] for row in summary.categories)
    named = [row for row in summary.categories if row["category"] != "other" and row["step_self_cpu_ns"]]
    if named:
        share = named[0]["step_self_cpu_ns"] / total
        yield statement("category_usual", category=named[0]["category"], self_share=share)
    if summary.operators and (spent := summary.operators[0]["step_self_cpu_ns"]):
        yield statement(
            "operator_usual", name=summary.operators[0]["name"], step_self_ns=spent, self_share=spent / total
        )


def _slow_step(summary: SummaryRecord) -> Iterator[Statement]:
    steps = summary.steps
    if steps.recorded_step_ns and steps.slowest_ns and steps.slowest_ns >= SLOW * steps.recorded_step_ns:
        yield statement("slow_step", slowest_ns=steps.slowest_ns, slow_ratio=steps.slowest_ns / steps.recorded_step_ns)


def _memory(summary: SummaryRecord) -> Iterator[Statement]:
    peaks = [counter.maximum for counter in summary.hardware if counter.name == "process memory bytes"]
    if peaks:
        yield statement("memory", peak_bytes=max(peaks))
