"""Escapes text that a spreadsheet would execute as a formula.

Spreadsheets treat a cell as a formula if it starts with certain characters, even in quotes, and names in a trace are
not trusted. A leading apostrophe makes the cell text. Text that already starts with apostrophes before such a character
gets another one, so that removing one apostrophe always restores the original.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_FORMULA = r"^('*[=+\-@\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}])"
"""Characters that start a formula, including full-width ones, after any apostrophes; in the syntax of Arrow's RE2."""
_FORMULA_IN_PYTHON = re.compile(re.sub(r"\\x\{(\w+)\}", r"\\u\1", _FORMULA).replace("^", r"\A"))


def inert(text: str) -> str:
    """Return the text, with a leading apostrophe if a spreadsheet would treat it as a formula."""
    return _FORMULA_IN_PYTHON.sub(r"'\1", text)


def inert_texts(column: pa.ChunkedArray) -> Any:
    """Return a dictionary column as escaped text, and any other column unchanged."""
    if not pa.types.is_dictionary(column.type):
        return column
    chunks = [
        pa.DictionaryArray.from_arrays(
            chunk.indices, pc.replace_substring_regex(chunk.dictionary, pattern=_FORMULA, replacement=r"'\1")
        )
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, column.type).cast(pa.string())
