"""The texts of a diff page in one language, by key, with all values inserted.

A page is written in one language and holds the same texts in the other, for its scripts to switch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unified_profiler._version import __version__
from unified_profiler.comparison.page_rows import Bar, TableLine, largest_differences
from unified_profiler.comparison.records import DiffRecord, DiffRow, Measured, Side
from unified_profiler.comparison.text import SIDES, SideName, label, shown_ratio, verdicts
from unified_profiler.model.statements import Value
from unified_profiler.presentation.tables import format_time, one_line
from unified_profiler.presentation.texts import format_value, render_statement, render_text, shortened, texts

_WITHOUT_VALUES = (
    *("ui.skip", "ui.sections", "ui.language", "ui.theme", "ui.notices", "ui.level.", "ui.search", "ui.footer."),
    *("ui.keys.", "ui.diff.", "diff.column.", "diff.baseline", "diff.candidate"),
)
"""Beginnings of the keys of texts that are shown as they are."""


def page_texts(
    diff: DiffRecord, *, lines: Sequence[TableLine], bars: Sequence[Bar], left_count: int, language: str
) -> dict[str, str]:
    """Return the texts of a page. Keys of texts about this diff begin with `page.`.

    Args:
        diff: The diff.
        lines: The rows of the table.
        bars: The bars of the chart.
        left_count: The number of rows that are not in the table.
        language: The language.
    """
    known = texts(language)
    largest = largest_differences(diff)
    return {
        **{key: text for key, text in known.items() if key.startswith(_WITHOUT_VALUES)},
        **_sentences(diff, left_count, language),
        **_numbered("notice", (render_statement("diff", notice, language=language) for notice in diff.notices)),
        **_numbered("contributor", (_row_label(row, known) for row in largest)),
        **_numbered("contribution", (_contribution(row, language) for row in largest)),
        **{f"page.{side}.{fact}": text for side in SIDES for fact, text in side_facts(diff, side, language).items()},
        **_numbered("bar", (_bar_label(bar, known) for bar in bars)),
        **_numbered("line", (_row_label(line.row, known) for line in lines)),
    }


def _numbered(kind: str, of_kind: Iterable[str]) -> dict[str, str]:
    return {f"page.{kind}.{number}": text for number, text in enumerate(of_kind)}


def _sentences(diff: DiffRecord, left_count: int, language: str) -> dict[str, str]:
    known = texts(language)
    names: dict[str, Value] = {side: getattr(diff, side).name for side in SIDES}
    threshold: dict[str, Value] = {"threshold_share": diff.threshold}
    verdict, *others = verdicts(diff, language=language)
    left_out = render_text("ui.diff.left_out", {"left_count": left_count}, language=language)
    return {
        "page.title": render_text("ui.diff.title", names, language=language),
        "page.verdict": verdict,
        "page.verdicts": known["ui.sentence_separator"].join(others),
        "page.rows": known["ui.sentence_separator"].join(
            [known[f"ui.diff.by.{diff.by}"], known[f"diff.time.{diff.time}"]]
        ),
        "page.left_out": left_out if left_count else "",
        "page.mark_meaning": render_text("ui.diff.word.mark_meaning", threshold, language=language),
        "page.made_by": render_text("ui.footer.made_by", {"version": __version__}, language=language),
    }


def _contribution(row: DiffRow, language: str) -> str:
    words: dict[str, Value] = {"ratio": shown_ratio(row.ratio), "name": label(row, texts(language))}
    for side in SIDES:
        measured: Measured | None = getattr(row, side)
        words[f"{side}_calls"] = None if measured is None else shown_calls(measured.call_count)
    words["why"] = render_text(f"ui.diff.why.{_reason(row)}", words, language=language)
    words |= {"difference": signed_time(row.difference_ns), "difference_share": abs(row.difference_share or 0.0)}
    return render_text("ui.diff.contribution", words, language=language)


def _reason(row: DiffRow) -> str:
    if row.baseline is None or row.candidate is None:
        return "only_candidate" if row.baseline is None else "only_baseline"
    if row.ratio is None:
        return "seldom"
    if not row.same_calls:
        return "other_calls"
    return "same_calls" if row.baseline.call_count else "no_calls"


def side_facts(diff: DiffRecord, name: SideName, language: str) -> dict[str, str]:
    """Return what the card of a side lists, without what is unknown."""
    side: Side = getattr(diff, name)
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
        "outside_steps_ns": format_value("_ns", side.outside_steps_ns) if side.outside_steps_ns else "",
    }
    return {fact: text for fact, text in facts.items() if text}


def _bar_label(bar: Bar, known: dict[str, str]) -> str:
    several = len(bar.rows) > 1
    return known["diff.more"].format(more=len(bar.rows)) if several else _row_label(bar.rows[0], known)


def _row_label(row: DiffRow, known: dict[str, str]) -> str:
    return shown_name(label(row, known))


def shown_name(text: str) -> str:
    """Return a name shortened to one line."""
    return shortened(one_line(text))


def signed_time(nanoseconds: float) -> str:
    """Return a difference of times with its sign."""
    sign = "+" if nanoseconds > 0 else "\u2212" if nanoseconds < 0 else ""  # a minus as wide as the plus
    return sign + format_time(abs(nanoseconds))


def shown_calls(count: float) -> str:
    """Return a mean number of calls with at most two decimals."""
    return f"{count:,.2f}".rstrip("0").rstrip(".")
