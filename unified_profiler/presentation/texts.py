"""Renders the texts of reports in each language, with values formatted by the suffixes of their names.

Sentences about a run are in sentences.<language>.toml, the words of the HTML pages in texts.<language>.toml.

Hints are stored in English with a run. They consist of the sentences `advice.*` of sentences.en.toml, and the sentences
with the same keys are shown in another language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from string import Formatter
from typing import Protocol

from unified_profiler.presentation.text import one_line
from unified_profiler.presentation.units import format_bytes, format_time
from unified_profiler.toml_files import packaged_toml

Value = str | int | float | None

LANGUAGES = ("en", "zh")
LONGEST = 300
"""Longest text value within a sentence, in characters; the rest is cut."""
_LONGEST_HINT = 1000
"""Longer texts are not compared with the sentences of hints, which could take long."""
_AFTER_SENTENCE = re.compile(r"(?<=\.) ")

_FORMATS: dict[str, Callable[[float], str]] = {
    "_ns": format_time,
    "_bytes": format_bytes,
    "_share": "{:,.1%}".format,
    "_ratio": "{:,.2f}\u00d7".format,
    "_count": "{:,}".format,
}
"""By the suffix of a value's name."""


class _Shown(str):
    """A formatted value. `{step_count:step|steps}` in a text stands for the first word if the value is shown as 1."""

    __slots__ = ()

    def __format__(self, words: str) -> str:
        one, _, several = words.partition("|")
        return (one if self == "1" else several) if words else str(self)


class StatementLike(Protocol):
    """A sentence as data; `model.statements.Statement` is one."""

    @property
    def code(self) -> str:
        """The key of the sentence."""
        ...

    @property
    def values(self) -> Mapping[str, Value]:
        """The values to insert."""
        ...


@cache
def texts(language: str) -> dict[str, str]:
    """Return all texts of a language by key."""
    files = (f"{name}.{language}.toml" for name in ("texts", "sentences"))
    return {key: text for file in files for key, text in packaged_toml("unified_profiler.presentation", file).items()}


def render_text(key: str, values: Mapping[str, Value], *, language: str = "en") -> str:
    """Return a text with its values inserted."""
    formatted = {name: _Shown(format_value(name, value, language=language)) for name, value in values.items()}
    return texts(language)[key].format_map(formatted)


def render_whole(key: str, values: Mapping[str, object], *, language: str = "en") -> str:
    """Return a text with its values inserted; paths and messages are not shortened."""
    formatted = {name: _Shown(_whole(name, value, language)) for name, value in values.items()}
    return texts(language)[key].format_map(formatted)


def render_statement(kind: str, statement: StatementLike, *, language: str = "en") -> str:
    """Return the sentence of a statement; kind is the first part of its key, such as `notice`."""
    return render_text(f"{kind}.{statement.code}", statement.values, language=language)


def format_value(name: str, value: Value, *, language: str = "en") -> str:
    """Format a value by the suffix of its name."""
    if value is None:
        return "\u2013"
    if name == "category":
        return texts(language)[f"category.{value}"]
    if name == "side":
        return texts(language)[f"diff.side.{value}"]
    if name == "metric":
        value = texts(language).get(f"gate.metric.{value}", value)
    if isinstance(value, str):
        return shortened(one_line(render_hint(value, language=language) if name == "hint" else value))
    return _FORMATS.get(name[name.rfind("_") :], str)(value)


def format_amount(value: float, unit: str) -> str:
    """Format the value of a counter with its unit."""
    if unit == "bytes":
        return format_bytes(value)
    if unit == "bytes/s":
        return f"{format_bytes(value)}/s"
    return f"{value:,.1f}%" if unit == "%" else f"{value:,.1f} {unit}".strip()


def shortened(text: str, most: int = LONGEST) -> str:
    """Return a text cut to at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def render_hint(hint: str, *, language: str = "en") -> str:
    """Return a hint in a language; if it has an unknown part, as in a run of another version, it stays in English."""
    if language == "en" or len(hint) > _LONGEST_HINT:
        return hint
    return _translated(hint, language) or hint


@lru_cache(maxsize=1000)
def _translated(hint: str, language: str) -> str | None:
    """Translate the shortest known beginning with which the rest is known too; None if there is no such beginning."""
    ends = [match.start() for match in _AFTER_SENTENCE.finditer(hint)]
    for end in (*ends, len(hint)):
        beginning, rest = _sentence(hint[:end], language), hint[end + 1 :]
        if beginning is not None and not rest:
            return beginning
        if beginning is not None and (following := _translated(rest, language)) is not None:
            return beginning + texts(language)["ui.sentence_separator"] + following
    return None


def _sentence(english: str, language: str) -> str | None:
    for key, pattern in _sentences_of_hints():
        if (match := pattern.fullmatch(english)) is not None:
            return texts(language)[key].format_map(match.groupdict())
    return None


@cache
def _sentences_of_hints() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the key and the pattern of each sentence; a placeholder is a group of the same name."""
    english = {key: text for key, text in texts("en").items() if key.startswith("advice.")}
    return tuple((key, re.compile("".join(_expressions(text)), re.DOTALL)) for key, text in english.items())


def _expressions(text: str) -> Iterator[str]:
    for literal, name, words, _ in Formatter().parse(text):
        yield re.escape(literal)
        if name:
            yield f"(?:{words})" if words else f"(?P<{name}>.+?)"


def _whole(name: str, value: object, language: str) -> str:
    if isinstance(value, (int, float)):
        return format_value(name, value)
    return render_hint(str(value), language=language) if name == "hint" else str(value)
