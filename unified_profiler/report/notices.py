"""Collects warnings about a run: killed or missing ranks, failures, lack of CPU time, and hints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unified_profiler.model.run import Run
from unified_profiler.model.statements import Statement, Value, statement
from unified_profiler.report.records import SummaryRecord
from unified_profiler.report.starvation import MUCH_STOLEN, Starvation

MOST_FAILURES = 20
"""Failures that are listed individually."""
MOST_FILES = 5
"""Files that are named individually."""


def notices(run: Run, summary: SummaryRecord, starved: Sequence[Starvation]) -> tuple[Statement, ...]:
    """Return the notices: first what makes all times misleading, then the most severe."""
    statements = [
        *starvation(starved),
        *_no_data(run, summary),
        *_killed(summary),
        *_script_failed(run),
        *_missing_ranks(summary),
    ]
    statements += [*_failures(run), *_incomplete(run), *_no_steps(run, summary), *_dominating_step(summary)]
    statements += [*_files_read(run), *_hints(run)]
    return tuple(statement.with_text("notice") for statement in statements)


def starvation(starved: Sequence[Starvation]) -> Iterator[Statement]:
    """Yield the notices on ranks that did not get the CPU time they wanted."""
    for each in starved:
        cores: dict[str, Value] = {"got_share": each.got_cores, "wanted_share": each.wanted_cores}
        machine: dict[str, Value] = {"busy_share": each.busy_share, "stolen_share": each.stolen_share}
        code = "starved_by_hypervisor" if (each.stolen_share or 0.0) >= MUCH_STOLEN else "starved"
        yield statement(code, "warning", rank=each.rank, **cores, **machine)


def _dominating_step(summary: SummaryRecord) -> Iterator[Statement]:
    if (longest := summary.dominating_step) is not None:
        yield statement("dominating_step", "warning", rank=longest.rank, step=longest.step, step_share=longest.share)


def _no_data(run: Run, summary: SummaryRecord) -> Iterator[Statement]:
    if not run.traces:
        code = "empty_run" if summary.steps.count else "empty_run_without_steps"
        yield statement(code, "error", step_count=summary.steps.count)
    elif not summary.event_count:
        yield statement("no_events", "error")
    elif not summary.operators:
        yield statement("no_operators", "info")


def _killed(summary: SummaryRecord) -> Iterator[Statement]:
    for rank in summary.ranks:
        if not rank.ended:
            yield statement(
                "killed", "warning", rank=rank.rank, step_count=rank.step_count, cycle_count=rank.cycle_count
            )


def _script_failed(run: Run) -> Iterator[Statement]:
    for rank, manifest in run.manifests.items():
        if manifest.exit_code:
            yield statement("script_failed", "warning", rank=rank, exit_code=manifest.exit_code)


def _missing_ranks(summary: SummaryRecord) -> Iterator[Statement]:
    """Report missing ranks of a run with several; a file with a single rank is a choice, not a loss."""
    present = len(summary.ranks)
    if 1 < present < summary.world_size:
        yield statement("missing_ranks", "warning", rank_count=present, world_count=summary.world_size)


def _failures(run: Run) -> Iterator[Statement]:
    failures = [(rank, failure) for rank, manifest in run.manifests.items() for failure in manifest.failures]
    for source, option in dict.fromkeys((failure.source, failure.option) for _, failure in failures if failure.option):
        yield statement("unsupported", "warning", source=source, option=option)
    failures = [(rank, failure) for rank, failure in failures if not failure.option]
    for rank, failure in failures[:MOST_FAILURES]:
        values: dict[str, Value] = {"source": failure.source, "action": failure.action, "error": failure.error}
        times = {"times_count": failure.count} if failure.count > 1 else {}
        yield statement("repeated_failure" if times else "failure", "error", rank=rank, **values, **times)
    if len(failures) > MOST_FAILURES:
        yield statement("more_failures", "error", more_count=len(failures) - MOST_FAILURES)


def _incomplete(run: Run) -> Iterator[Statement]:
    for trace in run.traces:
        if not trace.info.complete:
            yield statement("incomplete", "warning", rank=trace.info.rank, cycle=trace.info.cycle)


def _no_steps(run: Run, summary: SummaryRecord) -> Iterator[Statement]:
    if run.traces and not summary.steps.recorded_count:
        launched = any(manifest.exit_code is not None for manifest in run.manifests.values())
        yield statement("no_steps_detected" if launched else "no_steps", "info")  # a hint names the reason


def _files_read(run: Run) -> Iterator[Statement]:
    """Name the files that a native trace was read from, if a directory was given."""
    for trace in run.traces:
        for native in trace.info.native.values():
            files, others = (native.get(name) or () for name in ("files", "other_runs"))
            if trace.info.source and files:
                code = "taken_newest_files" if others else "taken_files"
                named = ", ".join(files[:MOST_FILES]) + (", ..." if len(files) > MOST_FILES else "")
                counts = {"file_count": len(files), "other_count": len(others)}
                yield statement(code, "info", source=trace.info.source, files=named, **counts)


def _hints(run: Run) -> Iterator[Statement]:
    hints = [hint for manifest in run.manifests.values() for hint in manifest.hints]
    hints += [hint for trace in run.traces for hint in trace.info.hints]
    for hint in dict.fromkeys(hints):
        yield statement("hint", "info", hint=hint)
