"""Renders a diff as text: the two sides, remarks, and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa

from unified_profiler.comparison.groupings import PYTHON_GROUP, UNNAMED
from unified_profiler.comparison.pieces import OUTSIDE_REGIONS, PYTHON
from unified_profiler.comparison.records import DiffRecord, DiffRow, Measured, Side
from unified_profiler.engine import Result
from unified_profiler.model.overhead import FEWEST_STEPS
from unified_profiler.model.statements import Value
from unified_profiler.presentation.html import html_paragraphs
from unified_profiler.presentation.tables import as_text as aligned_table
from unified_profiler.presentation.texts import format_value, render_statement, render_text, texts
from unified_profiler.presentation.units import format_ratio

SideName = Literal["baseline", "candidate"]
SIDES: tuple[SideName, SideName] = ("baseline", "candidate")
MOST_PARTS = 3
"""The number of parts of a row that a table lists; the others are summed in one line."""
_GIGA = 1e9
_CLEARLY = 1.25
"""Ratios beyond this, or below its inverse, are put into words, too."""
_WHOLE = 10
"""Factors from this on are rounded to whole numbers."""
_SOMETIMES = frozenset({"baseline_mean_ns", "candidate_mean_ns", "mean_ratio", "baseline_gflops", "candidate_gflops"})
"""Columns that are shown only if they have values."""

_TEXTS = frozenset({"name", "differs", "same_calls"})
_COLUMNS = (
    *("name", "differs", "baseline_mean_ns", "candidate_mean_ns", "mean_ratio", "baseline_ns", "candidate_ns"),
    *("difference_ns", "ratio", "baseline_calls", "candidate_calls", "same_calls", "difference_share"),
    *("baseline_spread_share", "candidate_spread_share", "baseline_gflops", "candidate_gflops"),
)
"""The most important columns come first: a narrow terminal has no room for the others."""


def as_text(diff: DiffRecord, *, language: str = "en") -> str:
    """Return the diff as aligned text."""
    lines = [*introduction(diff, language=language), "", *remarks(diff, language=language)]
    result = table_of(diff, language=language)
    table = aligned_table(result.table, headings=result.headings, footer=result.footer, language=language)
    return "\n".join([*lines, table])


def as_html(diff: DiffRecord) -> str:
    """Return the diff as HTML for notebooks."""
    lines = [*introduction(diff), *remarks(diff)]
    return html_paragraphs(lines) + table_of(diff)._repr_html_()


def introduction(diff: DiffRecord, *, language: str = "en") -> list[str]:
    """Return a line about each side, which also defines A and B, and the step times of both."""
    return [*headlines(diff, language=language), *verdicts(diff, language=language)]


def verdicts(diff: DiffRecord, *, language: str = "en") -> list[str]:
    """Return the step times of both sides: wall time without and with recording, then the compared time.

    If there are too few unrecorded steps to rely on, their wall time comes last.
    """
    counts = [side.unrecorded_step_count for side in (diff.baseline, diff.candidate)]
    relied_on = min(counts) >= FEWEST_STEPS
    times_ns = (diff.baseline.unrecorded_step_ns, diff.candidate.unrecorded_step_ns)
    words = dict(zip(("baseline_count", "candidate_count"), counts, strict=True))
    code = "unrecorded" if relied_on else "unrecorded_few"
    unrecorded = _verdict(code, times_ns, language, clear=relied_on, **words)
    recorded = [_compared(diff, language)]
    if diff.time != "wall":
        times_ns = (diff.baseline.step_ns, diff.candidate.step_ns)
        recorded.insert(0, _verdict("recorded", times_ns, language, clear=diff.total.differs))
    return [*filter(None, [unrecorded, *recorded] if relied_on else [*recorded, unrecorded])]


def _compared(diff: DiffRecord, language: str) -> str:
    words: dict[str, Value] = {"ratio": _factor(diff.total.ratio, language, clear=diff.total.differs)}
    for name in SIDES:
        measured: Measured | None = getattr(diff.total, name)
        words[f"{name}_ns"] = None if measured is None else measured.time_ns
    sentence = render_text(f"diff.verdict.{diff.time}", words, language=language)
    if diff.total.differs:
        return sentence
    return sentence + texts(language)["ui.sentence_separator"] + texts(language)["diff.verdict.alike"]


def _verdict(
    code: str, times_ns: tuple[float | None, float | None], language: str, *, clear: bool, **words: Value
) -> str:
    before, after = times_ns
    if not before or not after:
        return ""
    words |= {"baseline_ns": before, "candidate_ns": after, "ratio": _factor(after / before, language, clear=clear)}
    return render_text(f"diff.verdict.{code}", words, language=language)


def _factor(ratio: float | None, language: str, *, clear: bool) -> str:
    """Return the ratio of B to A; if it is large and clear of noise, also in words which of them is faster."""
    shown = shown_ratio(ratio)
    if not clear or not ratio or 1 / _CLEARLY <= ratio <= _CLEARLY:
        return shown
    if ratio > 1:
        return render_text("diff.factor.slower", {"ratio": shown}, language=language)
    times = 1 / ratio
    words = {"ratio": shown, "times": f"{times:,.0f}" if times >= _WHOLE else f"{times:.1f}"}
    return render_text("diff.factor.faster", words, language=language)


def shown_ratio(ratio: float | None) -> str:
    """Return a ratio, or a dash if there is none."""
    return format_value("_ratio", None) if ratio is None else format_ratio(ratio)


def headlines(diff: DiffRecord, *, language: str = "en") -> list[str]:
    """Return a line about each side."""
    return [side_line(name, getattr(diff, name), diff, language=language) for name in SIDES]


def remarks(diff: DiffRecord, *, language: str = "en") -> list[str]:
    """Return the notices."""
    separator = texts(language)["ui.sentence_separator"]
    label = {level: texts(language)[f"summary.{level}"] + separator for level in ("error", "warning", "info")}
    return [label[notice.level] + render_statement("diff", notice, language=language) for notice in diff.notices]


def side_line(name: SideName, side: Side, diff: DiffRecord, *, language: str = "en") -> str:
    """Return a line about a side: its name, frameworks, steps, and how much of it has a counterpart."""
    measured: Measured | None = getattr(diff.total, name)
    words: dict[str, Value] = {
        "label": texts(language)[f"diff.label.{name}"],
        "name": side.name,
        "frameworks": ", ".join(f"{framework} {version}".strip() for framework, version in side.frameworks.items()),
        "step_count": side.step_count,
        "step_ns": side.step_ns,
        "time_ns": None if measured is None else measured.time_ns,
        "overhead": texts(language)["diff.overhead_unclear"]
        if side.overhead_ratio is None
        else format_value("overhead_ratio", side.overhead_ratio),
        "thread_count": side.thread_count,
        "unmatched_share": side.unmatched_share,
        "unnamed_share": side.unnamed_share,
    }
    return render_text("diff.headline", words, language=language)


def table_of(diff: DiffRecord, *, parts: int | None = MOST_PARTS, language: str = "en") -> Result:
    """Return the rows as a table, those inside others indented.

    Args:
        diff: The diff.
        parts: The most parts to list below each row that differs; None for all parts of all rows.
        language: The language of headings and of rows without a name.
    """
    known = texts(language)
    records = [_record(label(diff.total, known), diff.total), *_records(diff.rows, 0, parts, known)]
    schema = pa.schema({name: pa.string() if name in _TEXTS else pa.float64() for name in _COLUMNS})
    table = pa.Table.from_pylist(records, schema=schema)
    shown = [name for name in _COLUMNS if name not in _SOMETIMES or table.column(name).null_count < len(table)]
    headings = {name: known[f"diff.column.{name}"] for name in shown}
    return Result(table=table, headings=headings, footer=_footer(diff, shown, known), sorted_by="difference_ns")


def _footer(diff: DiffRecord, shown: Sequence[str], known: dict[str, str]) -> tuple[str, ...]:
    threshold = format_value("_share", diff.threshold)
    lines = [known[f"diff.time.{diff.time}"], known["diff.legend"].format(threshold=threshold)]
    lines += [known["diff.mean"]] if "baseline_mean_ns" in shown else []
    lines += [known["diff.flops"]] if "baseline_gflops" in shown else []
    return tuple(lines)


def _records(rows: Sequence[DiffRow], depth: int, parts: int | None, known: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield rows and their nested rows; of the innermost only the largest are listed."""
    inner = depth > 0 and not any(row.rows for row in rows)
    most = len(rows) if parts is None or not inner else parts
    for row in rows[:most]:
        yield _record("  " * depth + label(row, known), row)
        if parts is None or row.differs or any(inner_row.rows for inner_row in row.rows):
            yield from _records(row.rows, depth + 1, parts, known)
    if len(rows) > most:
        yield {"name": "  " * depth + known["diff.more"].format(more=len(rows) - most), **_summed(rows[most:])}


def label(row: DiffRow, known: dict[str, str]) -> str:
    """Return the displayed name of a row."""
    name = row.name
    if row.kind == "total":
        return known["diff.total"]
    if name is None or (row.kind == "group" and name == UNNAMED):
        name = known["diff.unnamed"]
    elif name == PYTHON or (row.kind == "group" and name == PYTHON_GROUP):
        name = known["diff.python"]
    elif name == OUTSIDE_REGIONS:
        name = known["diff.outside_regions"]
    elif row.kind == "group":
        name = known.get(f"category.{name}", name)
    if row.direction is None:
        return name
    return f"{name} {known.get(f'diff.direction.{row.direction}', row.direction)}"


def _record(name: str, row: DiffRow) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": name,
        "differs": "*" if row.differs else "",
        "same_calls": {None: "", True: "=", False: "\u2260"}[row.same_calls],
        "difference_ns": row.difference_ns,
        "ratio": row.ratio,
        "mean_ratio": row.mean_ratio,
        "difference_share": row.difference_share,
    }
    for side in SIDES:
        record |= _side_columns(side, getattr(row, side))
    return record


def _side_columns(side: SideName, measured: Measured | None) -> dict[str, Any]:
    if measured is None:
        return {}
    spread = (measured.high_ns - measured.low_ns) / 2
    return {
        f"{side}_calls": measured.call_count,
        f"{side}_ns": measured.time_ns,
        f"{side}_mean_ns": measured.mean_ns,
        f"{side}_spread_share": spread / measured.time_ns if measured.time_ns else None,
        f"{side}_gflops": None if measured.flops_per_s is None else measured.flops_per_s / _GIGA,
    }


def _summed(rows: Sequence[DiffRow]) -> dict[str, Any]:
    """Sum up rows that are not listed."""
    sums: dict[str, Any] = {"difference_ns": sum(row.difference_ns for row in rows)}
    if shares := [row.difference_share for row in rows if row.difference_share is not None]:
        sums["difference_share"] = sum(shares)
    for side in SIDES:
        known = [measured for row in rows if (measured := getattr(row, side)) is not None]
        if known:
            sums[f"{side}_calls"] = sum(measured.call_count for measured in known)
            sums[f"{side}_ns"] = sum(measured.time_ns for measured in known)
    return sums
