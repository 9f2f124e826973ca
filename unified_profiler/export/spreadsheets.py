"""Text that does nothing in a spreadsheet.

Spreadsheets take a cell that begins with one of some characters for a formula and execute it, quotes or not, and the
names in a trace may be anybody's. An apostrophe in front makes it text. One is also put before text that could be taken
for text so changed, so that whoever takes one off again gets exactly what was there.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_FORMULA = r"^('*[=+\-@\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}])"
"""What formulas begin with, wide characters included, and apostrophes before it. In the language of Arrow's RE2."""
_FORMULA_IN_PYTHON = re.compile(re.sub(r"\\x\{(\w+)\}", r"\\u\1", _FORMULA).replace("^", r"\A"))


def inert(text: str) -> str:
    """Return the text, with an apostrophe in front if a spreadsheet would take it for a formula."""
    return _FORMULA_IN_PYTHON.sub(r"'\1", text)


def inert_texts(column: pa.ChunkedArray) -> Any:
    """Return a column with its dictionary of text decoded and inert, and any other column as it is."""
    if not pa.types.is_dictionary(column.type):
        return column
    chunks = [
        pa.DictionaryArray.from_arrays(
            chunk.indices, pc.replace_substring_regex(chunk.dictionary, pattern=_FORMULA, replacement=r"'\1")
        )
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, column.type).cast(pa.string())
