"""Renders a diff as a self-contained HTML page, which works offline and is readable without scripts."""

from __future__ import annotations

import secrets
from functools import cache
from typing import Any

from unified_profiler._version import __version__
from unified_profiler.comparison.groupings import groupings
from unified_profiler.comparison.page_rows import TableLine, bars_of, by_size, lines_of, shown_name
from unified_profiler.comparison.records import DiffRecord, DiffRow, Measured, Side
from unified_profiler.comparison.text import SIDES, SideName, label, shown_ratio, verdicts
from unified_profiler.model.statements import Value
from unified_profiler.presentation.tables import format_time
from unified_profiler.presentation.texts import format_value, render_statement, render_text, texts
from unified_profiler.report.page import asset

_CONTRIBUTIONS = 3
_PACKAGE = "unified_profiler.comparison"
_GIGA = 1e9


def page(diff: DiffRecord, *, language: str = "en") -> str:
    """Return a diff as one self-contained page."""
    known = texts(language)
    rows, left_count = lines_of(diff.rows, known)
    lines = [TableLine(diff.total, 0, known["diff.total"]), *rows]
    text: str = _template().render(
        diff=diff,
        language=language,
        nonce=secrets.token_urlsafe(16),
        styles=[asset("report.css"), asset("diff.css", package=_PACKAGE)],
        script=asset("diff.js", package=_PACKAGE),
        texts=known,
        title=f"{shown_name(diff.baseline.name)} | {shown_name(diff.candidate.name)}",
        sides=[_card(name, getattr(diff, name), diff, language) for name in SIDES],
        verdict=verdicts(diff, language=language),
        notices=[(notice.level, render_statement("diff", notice, language=language)) for notice in diff.notices],
        contributions=[_contribution(row, language) for row in _largest(diff)],
        grouped=_grouped(diff),
        bars=bars_of(diff.rows, known),
        lines=lines,
        with_flops=any(line.has_flops for line in lines),
        with_means=any(line.has_means for line in lines),
        widest_ns=max((abs(line.row.difference_ns) for line in rows), default=0) or 1,
        left_out=render_text("ui.diff.left_out", {"left_count": left_count}, language=language) if left_count else "",
        made_by=render_text("ui.footer.made_by", {"version": __version__}, language=language),
    )
    return text


def _largest(diff: DiffRecord) -> list[DiffRow]:
    """Return the rows that contribute most to the difference, in either direction."""
    rows = [row for group in diff.rows for row in group.rows] if _grouped(diff) else diff.rows
    return sorted((row for row in rows if row.differs), key=by_size)[:_CONTRIBUTIONS]


def _grouped(diff: DiffRecord) -> bool:
    return groupings(across_frameworks=diff.across_frameworks)[diff.by].is_canonical


def _contribution(row: DiffRow, language: str) -> dict[str, str]:
    name = shown_name(label(row, texts(language)))
    words: dict[str, Value] = {"ratio": shown_ratio(row.ratio), "name": name}
    for side in SIDES:
        measured: Measured | None = getattr(row, side)
        words[f"{side}_calls"] = None if measured is None else _calls(measured.call_count)
    words["why"] = render_text(f"ui.diff.why.{_reason(row)}", words, language=language)
    words |= {"difference": _signed(row.difference_ns), "difference_share": abs(row.difference_share or 0.0)}
    return {"name": name, "text": render_text("ui.diff.contribution", words, language=language)}


def _reason(row: DiffRow) -> str:
    if row.baseline is None or row.candidate is None:
        return "only_candidate" if row.baseline is None else "only_baseline"
    if row.ratio is None:
        return "seldom"
    if not row.same_calls:
        return "other_calls"
    return "same_calls" if row.baseline.call_count else "no_calls"


def _card(name: SideName, side: Side, diff: DiffRecord, language: str) -> dict[str, Any]:
    """Return the data of a side's card: its step times and facts."""
    measured: Measured | None = getattr(diff.total, name)
    overhead = format_value("overhead_ratio", side.overhead_ratio)
    if side.overhead_ratio is None and side.unrecorded_step_ns is not None:
        overhead = texts(language)["ui.diff.side.overhead_unclear"]
    facts = {
        "frameworks": ", ".join(
            format_value("", f"{key} {version}".strip()) for key, version in side.frameworks.items()
        ),
        "step_count": format_value("step_count", side.step_count),
        "ranks": ", ".join(map(str, side.ranks)) if len(side.ranks) > 1 else "",
        "unrecorded_step_ns": format_value("_ns", side.unrecorded_step_ns),
        "overhead": overhead,
        "thread_count": format_value("thread_count", side.thread_count),
        "unmatched_share": format_value("_share", side.unmatched_share),
        "unnamed_share": format_value("_share", side.unnamed_share),
        "outside_steps_ns": format_value("_ns", side.outside_steps_ns),
    }
    return {
        "side": name,
        "name": shown_name(side.name),
        "step": format_value("_ns", side.step_ns),
        "measured": measured,
        "facts": {key: value for key, value in facts.items() if value},
    }


def _signed(nanoseconds: float) -> str:
    sign = "+" if nanoseconds > 0 else "\u2212" if nanoseconds < 0 else ""  # a minus as wide as the plus
    return sign + format_time(abs(nanoseconds))


def _share(part: float | None) -> str:
    """Return a signed share in percent; zero has no sign."""
    return "" if part is None else f"{round(part, 3) + 0.0:.1%}".replace("-", "\u2212")


def _calls(count: float) -> str:
    return f"{count:,.2f}".rstrip("0").rstrip(".")


def _spread(measured: Measured) -> str:
    """Return half the interquartile range, relative to the median."""
    part = (measured.high_ns - measured.low_ns) / 2 / measured.time_ns if measured.time_ns else None
    return "" if part is None else f"\u00b1{part:.0%}"


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "time": format_time,
        "signed": _signed,
        "calls": _calls,
        "ratio": shown_ratio,
        "spread": _spread,
        "share": _share,
        "part": "{:.4f}".format,
        "giga": lambda value: f"{value / _GIGA:,.2f}",
    }
    return environment.from_string(asset("diff.html.jinja", package=_PACKAGE))
