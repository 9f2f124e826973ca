"""Builds the JSON document of the HTML page: summary, tables and charts, each limited in size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from unified_profiler.analysis import Result
from unified_profiler.engine import Source
from unified_profiler.model.nesting import Ints
from unified_profiler.presentation.texts import LANGUAGES, format_value, render_hint, shortened, texts
from unified_profiler.report.analyses import Analyses
from unified_profiler.report.call_tree import call_tree
from unified_profiler.report.counters import Counter
from unified_profiler.report.device_view import device_view
from unified_profiler.report.rank_view import rank_view
from unified_profiler.report.records import SummaryRecord
from unified_profiler.report.sections import Sections
from unified_profiler.report.spans import span_categories
from unified_profiler.report.step_times import RECORD, StepTimes
from unified_profiler.report.summary import span, summary_of
from unified_profiler.report.thinning import thin_keeping_maxima
from unified_profiler.report.timeline import timelines

GROUPINGS = ("name", "op", "shapes", "module")
"""Groupings of the tables of operators."""
MOST_ROWS = 2000
MOST_STEPS = 5000
MOST_POINTS = 1000
FEWEST_SAMPLES = 5
"""Samples that a window must have for its hardware to be drawn."""
MOST_RANKS = 16
"""Ranks with tables, a call tree and timelines of their own."""

_GROUPS = (
    ("cores", ("core",)),
    ("cpu", ("cpu",)),
    ("gpu", ("gpu",)),
    ("memory", ("memory", "allocated")),
    ("disk", ("disk",)),
    ("network", ("network",)),
)


def document(source: Source, *, language: str | None = None) -> dict[str, Any]:
    """Return the document of the page, as JSON.

    Args:
        source: A Trace or a Run.
        language: Initial language of the page; None for that of the browser.
    """
    analyses = Analyses(source)
    origin = span(analyses.run)[0] or 0
    ranks = dict(itertools.islice(analyses.ranks.items(), MOST_RANKS))
    spans = {rank: own.spans for rank, own in ranks.items()}
    steps = timelines(list(itertools.chain.from_iterable(spans.values())), origin_ns=origin)
    breakdown, table, devices = analyses.breakdown, analyses.rank_table, analyses.device_table
    summary = summary_of(analyses)
    return {
        "language": language,
        "title": shortened(Sections(summary).title),
        "texts": {name: {**texts(name), **_hints(summary, name)} for name in LANGUAGES},
        "summary": _cut(summary.model_dump(mode="json")),
        "steps": [_steps(times, origin) for times in analyses.steps],
        "breakdown": _table(breakdown, [name for name in breakdown.columns if name != "regions_ns"]),
        "regions": _regions(breakdown),
        "categories": span_categories(),
        "operators": {by: _operators(analyses, ranks, by) for by in GROUPINGS},
        "ops": {row.name: row.op for row in analyses.operators("name", "op").rows if row.op},
        "api": _of_ranks(analyses, ranks, lambda own: _table(own.api_calls)) if len(analyses.api_calls) else [],
        "flames": [{"rank": rank, "cycle": None, "step": None, **call_tree(parts)} for rank, parts in spans.items()],
        "timelines": steps.documents,
        "steps_without_timeline": steps.left_out,
        "curves": [_curve(each, origin) for each in analyses.counters if each.rank in ranks and _is_dense(each)],
        "sampled": any(counter.hardware for counter in analyses.counters),
        "devices": devices and device_view(analyses.run, devices, ranks=list(ranks), origin_ns=origin),
        "ranks": None if table is None else {**_cut(rank_view(table)), "table": _table(table.ranks)},
    }


def _hints(summary: SummaryRecord, language: str) -> dict[str, str]:
    """Return the translated hints, as texts whose keys end with the English hint as the page has it."""
    hints = [str(notice.values["hint"]) for notice in summary.notices if notice.code == "hint"]
    return {
        f"advice.{shortened(hint)}": format_value("hint", hint, language=language).replace("{", "{{").replace("}", "}}")
        for hint in hints
        if render_hint(hint, language=language) != hint
    }


def _cut(value: Any) -> Any:
    """Shorten all texts in nested values."""
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item) for item in value]
    return shortened(value) if isinstance(value, str) else value


def _steps(steps: StepTimes, origin: int) -> dict[str, Any]:
    """Reduce long trainings to the recorded steps and the slowest of each group of steps."""
    recorded = np.flatnonzero(steps.phase == RECORD)[:MOST_STEPS]
    kept = np.union1d(thin_keeping_maxima(steps.duration_ns, MOST_STEPS), recorded)
    return {
        "rank": steps.rank,
        "step": steps.step[kept].tolist(),
        "start": (steps.start_ns[kept] - origin).tolist(),
        "duration": steps.duration_ns[kept].tolist(),
        "phase": steps.phase[kept].tolist(),
        "left_out": len(steps.step) - len(kept),
    }


def _of_ranks(
    analyses: Analyses, ranks: Mapping[int, Analyses], table_of: Callable[[Analyses], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the table of all ranks together and, if there are several, that of each."""
    each = ranks if len(ranks) > 1 else {}
    return [{"rank": None, **table_of(analyses)}, *({"rank": rank, **table_of(own)} for rank, own in each.items())]


def _operators(analyses: Analyses, ranks: Mapping[int, Analyses], by: str) -> list[dict[str, Any]]:
    categories = _categories(analyses, by)
    return _of_ranks(analyses, ranks, lambda own: _with_category(_table(own.operators(by)), categories))


def _categories(analyses: Analyses, by: str) -> dict[Any, str]:
    """Return the category of each name or operator; of several, the one with the largest time."""
    if by == "module":
        return {}
    key = "op" if by == "op" else "name"
    rows = analyses.operators(key, "category").rows
    return {getattr(row, key): row.category for row in reversed(rows)}


def _with_category(table: dict[str, Any], categories: dict[Any, str]) -> dict[str, Any]:
    rows = [[*row, categories.get(row[0])] for row in table["rows"]]
    return {**table, "columns": [*table["columns"], "category"], "rows": rows}


def _regions(breakdown: Result) -> dict[str, Any]:
    rows = [
        [row.rank, row.cycle, row.step, shortened(name), spent]
        for row in breakdown.rows
        for name, spent in row.regions_ns.items()
    ]
    left_out = max(0, len(rows) - MOST_ROWS)
    return {"columns": ["rank", "cycle", "step", "name", "total_ns"], "rows": rows[:MOST_ROWS], "left_out": left_out}


def _table(result: Result, columns: Sequence[str] | None = None) -> dict[str, Any]:
    names = list(columns or result.columns)
    values = [result.table.column(name).slice(0, MOST_ROWS).to_pylist() for name in names]
    rows = [list(row) for row in zip(*values, strict=True)]
    return {"columns": names, "rows": _cut(rows), "left_out": max(0, len(result) - MOST_ROWS)}


def _curve(counter: Counter, origin: int) -> dict[str, Any]:
    kept = _extremes(counter)
    return {
        "rank": counter.rank,
        "name": counter.name,
        "device": counter.device,
        "unit": counter.unit,
        "group": _group(counter.name),
        "time": (counter.time_ns[kept] - origin).tolist(),
        "value": [round(value, 3) for value in counter.value[kept].tolist()],
        "left_out": len(counter.value) - len(kept),
    }


def _is_dense(counter: Counter) -> bool:
    """Return whether some window has enough samples for a curve; allocations are no samples."""
    return not counter.hardware or counter.most_in_cycle >= FEWEST_SAMPLES


def _extremes(counter: Counter) -> Ints:
    """Keep the minimum and the maximum of each part of a long curve."""
    rows = np.arange(len(counter.value))
    if len(rows) <= MOST_POINTS:
        return rows
    part = rows * (MOST_POINTS // 2) // len(rows)
    order = np.lexsort((counter.value, part))
    first = np.flatnonzero(np.diff(part[order], prepend=-1))
    last = np.append(first[1:], len(rows)) - 1
    kept: Ints = np.unique(order[np.concatenate([first, last])])
    return kept


def _group(name: str) -> str:
    low = name.lower()
    return next((group for group, words in _GROUPS if any(word in low for word in words)), "other")
