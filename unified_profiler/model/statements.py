"""Statement: a sentence as data, which `presentation.texts` words in each language."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from unified_profiler.model.records import Record
from unified_profiler.presentation.texts import Value

__all__ = ["Statement", "Value"]


class Statement(Record):
    """Something said in words: a code that names the sentence in each language, and the values in it.

    How a value is shown follows from the end of its name, as everywhere: `_ns`, `_bytes`, `_share`, `_ratio`, `_count`.
    """

    code: str
    level: Literal["error", "warning", "info"] = "info"
    values: dict[str, Value] = Field(default_factory=dict)
    text: str = ""
    """The sentence in English."""
