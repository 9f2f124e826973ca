"""Renders a diff as a self-contained HTML page, which works offline and is readable without scripts."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import cache
from typing import Any

from unified_profiler.comparison.page_rows import TableLine, bars_of, is_grouped, largest_differences, lines_of
from unified_profiler.comparison.page_texts import page_texts, shown_calls, shown_name, side_facts, signed_time
from unified_profiler.comparison.records import DiffRecord, Measured
from unified_profiler.comparison.text import SIDES, shown_ratio
from unified_profiler.presentation.tables import format_time
from unified_profiler.presentation.texts import LANGUAGES, format_value, texts
from unified_profiler.report.page import asset

SHARED_SCRIPTS = ("texts.js", "elements.js", "address.js", "keys.js", "theme.js")
"""Scripts of the report that the page uses too."""
_OF_SCRIPTS = ("ui.diff.rows_of", "ui.no_match", "ui.clear_search", "ui.keys.")
"""Beginnings of the keys of texts that only the scripts show."""
_PACKAGE = "unified_profiler.comparison"
_GIGA = 1e9
_MOST_SPREAD = 10
"""The largest spread that is written out; the number of a larger one means no more than that."""


def page(diff: DiffRecord, *, language: str = "en") -> str:
    """Return a diff as one self-contained page.

    Args:
        diff: The diff.
        language: The language in which it is written; scripts can switch it.
    """
    rows, left_count = lines_of(diff.rows)
    content: dict[str, Any] = {"lines": [TableLine(diff.total), *rows], "bars": bars_of(diff.rows)}
    in_languages = {name: page_texts(diff, **content, left_count=left_count, language=name) for name in LANGUAGES}
    translated = {key for key in in_languages[language] if len({named[key] for named in in_languages.values()}) > 1}
    text: str = _template().render(
        **content,
        diff=diff,
        language=language,
        nonce=secrets.token_urlsafe(16),
        styles=[asset("report.css"), asset("diff.css", package=_PACKAGE)],
        scripts=[*map(asset, SHARED_SCRIPTS), asset("diff.js", package=_PACKAGE)],
        texts=in_languages[language],
        translated=translated,
        translations={name: _translations(named, translated, name) for name, named in in_languages.items()},
        sides={name: side_facts(diff, name, language) for name in SIDES},
        contribution_count=len(largest_differences(diff)),
        grouped=is_grouped(diff),
        with_flops=any(line.has_flops for line in content["lines"]),
        with_means=any(line.has_means for line in content["lines"]),
        widest_ns=max((abs(line.row.difference_ns) for line in rows), default=0) or 1,
    )
    return text


def _translations(named: Mapping[str, str], keys: set[str], language: str) -> dict[str, str]:
    """Return the texts that scripts switch, whose braces are no placeholders, and those that only scripts show."""
    finished = {key: named[key].replace("{", "{{").replace("}", "}}") for key in keys}
    return finished | {key: text for key, text in texts(language).items() if key.startswith(_OF_SCRIPTS)}


def _share(part: float | None) -> str:
    """Return a signed share in percent; zero has no sign."""
    return "" if part is None else f"{round(part, 3) + 0.0:.1%}".replace("-", "\u2212")


def _spread(measured: Measured) -> str:
    """Return half the interquartile range, relative to the median."""
    if not measured.time_ns:
        return ""
    part = (measured.high_ns - measured.low_ns) / 2 / measured.time_ns
    return f"\u00b1>{_MOST_SPREAD:.0%}" if part > _MOST_SPREAD else f"\u00b1{part:.0%}"


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "name": shown_name,
        "duration": lambda value: format_value("_ns", value),
        "time": format_time,
        "signed": signed_time,
        "calls": shown_calls,
        "ratio": shown_ratio,
        "spread": _spread,
        "share": _share,
        "part": "{:.4f}".format,
        "giga": lambda value: f"{value / _GIGA:,.2f}",
    }
    return environment.from_string(asset("diff.html.jinja", package=_PACKAGE))
