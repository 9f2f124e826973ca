"""Statements: sentences of reports as data (a code and values), rendered in each language by `presentation.texts`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from unified_profiler.model.records import Record
from unified_profiler.presentation.texts import Value, render_statement

__all__ = ["Severity", "Statement", "Value", "statement"]

Severity: TypeAlias = Literal["error", "warning", "info"]


class Statement(Record):
    """A sentence: a code that identifies it in each language, and the values to insert.

    The suffix of a value's name determines its format: `_ns`, `_bytes`, `_share`, `_ratio`, `_count`.
    """

    code: str
    level: Severity = "info"
    values: dict[str, Value] = Field(default_factory=dict)
    text: str = ""
    """The sentence in English."""

    def with_text(self, kind: str) -> Statement:
        """Return the statement with its English sentence; kind is the first part of the key in sentences.en.toml."""
        return self.model_copy(update={"text": render_statement(kind, self)})


def statement(code: str, level: Severity = "info", /, **values: Value) -> Statement:
    """Return a statement without text."""
    return Statement(code=code, level=level, values=values)
