"""Computes the summary of a run, which summary.json, summary.md, the terminal and the HTML report show."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.compute as pc

from unified_profiler._version import __version__
from unified_profiler.analysis import Result
from unified_profiler.engine import Source
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.records import Manifest, OverheadUnclear
from unified_profiler.model.run import Run
from unified_profiler.model.storage import write_text
from unified_profiler.model.trace import Trace
from unified_profiler.report.analyses import Analyses
from unified_profiler.report.counters import Counter as Curve
from unified_profiler.report.dominating_step import median_self_times
from unified_profiler.report.findings import findings
from unified_profiler.report.markdown import markdown
from unified_profiler.report.notices import notices
from unified_profiler.report.records import (
    CounterSummary,
    RankSummary,
    RegionSummary,
    StepsSummary,
    SummaryRecord,
)
from unified_profiler.report.step_times import StepTimes

MOST_ROWS = 50
"""Largest number of operators and of API calls."""


class Summary(SummaryRecord):
    """The key facts of a run. `print` shows them as Markdown; `model_dump_json()` returns everything."""

    def __str__(self) -> str:
        """Return the summary as Markdown."""
        return markdown(self)

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        """Return the summary for notebooks."""
        return markdown(self)


@checked_keywords
def summarize(source: Source) -> Summary:
    """Summarize a Trace or a Run: what ran, where the step time went, the largest operators, and failures."""
    return summary_of(Analyses(source))


def write_json(source: Source, path: Path) -> None:
    """Write the summary of a Trace or a Run as JSON."""
    write_text(path, summarize(source).model_dump_json(indent=2) + "\n")


def write_markdown(source: Source, path: Path, *, language: str | None = None) -> None:
    """Write the summary of a Trace or a Run as Markdown."""
    write_text(path, markdown(summarize(source), language=language or "en"))


def summary_of(analyses: Analyses) -> Summary:
    """Summarize an analyzed run."""
    run, breakdown, operators = analyses.run, analyses.breakdown, analyses.operators("name")
    start, end = span(run)
    devices = analyses.device_table
    ranks = _ranks(analyses)
    summary = Summary(
        profiler_version=__version__,
        run=name_of(run),
        command=next((manifest.command for manifest in run.manifests.values()), ()),
        started_ns=start,
        ended_ns=end,
        duration_ns=0 if start is None or end is None else max(end - start, 0),
        frameworks=dict(chain.from_iterable(trace.info.frameworks.items() for trace in run.traces)),
        world_size=world_size(run),
        event_count=sum(trace.info.event_count for trace in run.traces),
        ranks=ranks,
        ranks_verdict=() if analyses.rank_table is None else analyses.rank_table.verdict,
        devices_verdict=() if devices is None else devices.verdict,
        devices=() if devices is None else tuple(devices.devices.table.drop_columns(["stream"]).to_pylist()),
        steps=_steps(ranks, analyses.steps),
        step_parts=analyses.step_parts,
        regions=tuple(_regions(breakdown)),
        dominating_step=analyses.dominating_step,
        categories=_ranked(analyses, "category"),
        operators=_ranked(analyses, "name")[:MOST_ROWS],
        operator_count=len(operators),
        api_calls=tuple(analyses.api_calls.table.slice(0, MOST_ROWS).to_pylist()),
        hardware=tuple(_hardware(analyses.counters)),
    )
    statements = {"notices": notices(run, summary, analyses.starved), "findings": findings(summary, operators)}
    return summary.model_copy(update=statements)


def name_of(run: Run) -> str:
    """Return the name of a run, or of the file or directory that it was read from; empty if it has none."""
    if run.path is not None:
        return run.path.name
    folders = {(trace.info.source or "").rpartition("/")[0] for trace in run.traces}
    if len(run.traces) > 1 and len(folders) == 1 and (folder := folders.pop().rpartition("/")[2]):
        return folder
    named = (trace.info.run or (trace.info.source or "").rpartition("/")[2] for trace in run.traces)
    return next(filter(None, named), "")


def steps_of(run: Run) -> StepsSummary:
    """Summarize the step times of a run."""
    analyses = Analyses(run)
    return _steps(_ranks(analyses), analyses.steps)


def span(run: Run) -> tuple[int | None, int | None]:
    """Return start and end of a run in nanoseconds; one that did not end is taken to end with its last data."""
    infos = [trace.info for trace in run.traces]
    manifests = run.manifests.values()
    starts = [manifest.started_ns for manifest in manifests] or [info.start_ns for info in infos]
    ends = [manifest.ended_ns for manifest in manifests] or [info.end_ns for info in infos]
    known = [end for end in ends if end is not None]
    if len(known) < len(ends) or not known:
        known += [info.end_ns for info in infos]
        known += [] if run.steps is None or not len(run.steps) else [pc.max(run.steps.column("end_ns")).as_py()]
    return min(starts, default=None), max(known, default=None)


def _ranked(analyses: Analyses, key: str) -> tuple[dict[str, Any], ...]:
    """Return the rows of operators by total self time, or by that in a typical step if one step dominates."""
    rows = analyses.operators(key).table.to_pylist()
    if analyses.dominating_step is None:
        return tuple(rows)
    step_count = sum(len(times.recorded) for times in analyses.steps)
    typical = median_self_times(analyses.run, key, step_count=step_count)
    ranked = [{**row, "step_self_cpu_ns": typical.get(row[key], 0)} for row in rows]
    return tuple(sorted(ranked, key=lambda row: -row["step_self_cpu_ns"]))


def _ranks(analyses: Analyses) -> tuple[RankSummary, ...]:
    starved = {each.rank for each in analyses.starved}
    return tuple(_rank(analyses.run, steps, starved=steps.rank in starved) for steps in analyses.steps)


def _rank(run: Run, steps: StepTimes, *, starved: bool) -> RankSummary:
    part = run.select(rank=steps.rank)
    recorded = steps.recorded
    return RankSummary(
        rank=steps.rank,
        step_count=len(steps.step),
        recorded_step_count=len(recorded),
        cycle_count=len(part.traces),
        event_count=sum(trace.info.event_count for trace in part.traces),
        recorded_step_ns=int(median(recorded.tolist())) if len(recorded) else None,
        **_process(part.manifests.get(steps.rank), part.traces, starved=starved),
    )


def _process(manifest: Manifest | None, traces: Sequence[Trace], *, starved: bool) -> dict[str, Any]:
    """Return the process fields of a rank: from its manifest, or a few of them from its traces."""
    if manifest is None:
        return {"host": traces[0].info.host, "pid": traces[0].info.pid} if traces else {}
    unclear: OverheadUnclear | None = "starved" if starved else manifest.overhead.unclear
    return {
        "host": manifest.host,
        "pid": manifest.pid,
        "python": manifest.python,
        "platform": manifest.platform,
        "ended": manifest.ended_ns is not None,
        "unrecorded_step_ns": manifest.overhead.unrecorded_step_ns,
        "unrecorded_step_count": manifest.overhead.unrecorded_step_count,
        "overhead_ratio": None if unclear else manifest.overhead.ratio,
        "overhead_unclear": unclear,
        "steady_step": None if starved else manifest.overhead.steady_step,
        "start_up_ns": manifest.start_up_ns,
        "failure_count": sum(failure.count for failure in manifest.failures),
    }


def _steps(ranks: Sequence[RankSummary], times: Sequence[StepTimes]) -> StepsSummary:
    recorded = list(chain.from_iterable(steps.recorded.tolist() for steps in times))
    unclear = _overhead_unclear(ranks)
    unrecorded, in_recording = (
        _median(getattr(rank, name) for rank in ranks) for name in ("unrecorded_step_ns", "recorded_step_ns")
    )
    return StepsSummary(
        count=max((rank.step_count for rank in ranks), default=0),
        recorded_count=max((rank.recorded_step_count for rank in ranks), default=0),
        unrecorded_step_ns=None if unrecorded is None else int(unrecorded),
        unrecorded_count=max((rank.unrecorded_step_count for rank in ranks), default=0),
        recorded_step_ns=None if in_recording is None else int(in_recording),
        overhead_ratio=None if unclear else _median(rank.overhead_ratio for rank in ranks),
        overhead_unclear=unclear,
        steady_step=max((rank.steady_step for rank in ranks if rank.steady_step is not None), default=None),
        fastest_ns=min(recorded, default=None),
        slowest_ns=max(recorded, default=None),
        start_up_ns=max((rank.start_up_ns for rank in ranks if rank.start_up_ns is not None), default=None),
    )


def _overhead_unclear(ranks: Sequence[RankSummary]) -> OverheadUnclear | None:
    """Return the most frequent reason among the ranks that have unrecorded steps."""
    reasons = Counter(rank.overhead_unclear for rank in ranks if rank.unrecorded_step_count)
    return reasons.most_common(1)[0][0] if reasons else "few_steps"


def _regions(breakdown: Result) -> list[RegionSummary]:
    times: dict[str, list[int]] = defaultdict(list)
    for row in breakdown.rows:
        for name, region_ns in row.regions_ns.items():
            times[name].append(region_ns)
    wall = sum(row.wall_ns for row in breakdown.rows)
    regions = [
        RegionSummary(name=name, total_ns=sum(each), wall_share=sum(each) / wall if wall else 0.0, step_count=len(each))
        for name, each in times.items()
    ]
    return sorted(regions, key=lambda region: (-region.total_ns, region.name))


def _hardware(counters: Sequence[Curve]) -> list[CounterSummary]:
    return [
        CounterSummary(
            rank=counter.rank,
            name=counter.name,
            device=counter.device,
            unit=counter.unit,
            mean=float(counter.value.mean()),
            minimum=float(counter.value.min()),
            maximum=float(counter.value.max()),
            sample_count=len(counter.value),
        )
        for counter in counters
        if counter.hardware
    ]


def world_size(run: Run) -> int:
    """Return the number of ranks of the job that a run belongs to."""
    sizes = [manifest.world_size for manifest in run.manifests.values()]
    return max([*sizes, *(trace.info.world_size for trace in run.traces)], default=1)


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
