"""What reports say, in each language, with values formatted by their names.

Sentences about a run are in sentences.<language>.toml, the words of the page in texts.<language>.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Protocol

from unified_profiler.presentation.tables import format_bytes, format_time, one_line
from unified_profiler.toml_files import packaged_toml

Value = str | int | float | None

LANGUAGES = ("en", "zh")
LONGEST = 300
"""Names and messages of others are cut to this many characters within a sentence."""


class StatementLike(Protocol):
    """Anything that names a sentence and has the values in it."""

    @property
    def code(self) -> str:
        """The name of the sentence."""
        ...

    @property
    def values(self) -> Mapping[str, Value]:
        """The values in it."""
        ...


@cache
def texts(language: str) -> dict[str, str]:
    """Return all texts of a language by their keys."""
    files = (f"{name}.{language}.toml" for name in ("texts", "sentences"))
    return {key: text for file in files for key, text in packaged_toml("unified_profiler.presentation", file).items()}


def render_text(key: str, values: Mapping[str, Value], *, language: str = "en") -> str:
    """Return a sentence with its values in it."""
    shown = {name: format_value(name, value, language=language) for name, value in values.items()}
    return texts(language)[key].format_map(shown)


def render_statement(kind: str, statement: StatementLike, *, language: str = "en") -> str:
    """Return the words of a notice or a finding."""
    return render_text(f"{kind}.{statement.code}", statement.values, language=language)


def format_value(name: str, value: Value, *, language: str = "en") -> str:
    """Return a value as people read it; what it is follows from the end of its name."""
    if value is None:
        return "\u2013"  # a dash
    if name == "category":
        return texts(language)[f"category.{value}"]
    if name == "side":
        return texts(language)[f"diff.side.{value}"]
    if isinstance(value, str):
        return shortened(one_line(value))
    if name.endswith("_ns"):
        return format_time(value)
    if name.endswith("_bytes"):
        return format_bytes(value)
    if name.endswith("_share"):
        return f"{value:.1%}"
    if name.endswith("_ratio"):
        return f"{value:.2f}\u00d7"  # times
    return f"{value:,}" if name.endswith("_count") else f"{value}"


def format_amount(value: float, unit: str) -> str:
    """Return the value of a counter with its unit."""
    if unit == "bytes":
        return format_bytes(value)
    if unit == "bytes/s":
        return f"{format_bytes(value)}/s"
    return f"{value:,.1f} {unit}".strip()


def shortened(text: str, most: int = LONGEST) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
