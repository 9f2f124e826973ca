"""Groups canonical operators into about twenty categories (matrix multiplication, convolution, ...) for summaries."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.columns import coded
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.toml_files import packaged_toml

OTHER = "other"
RUNTIME = "runtime"
BOOKKEEPING = "bookkeeping"
_BY_KIND = {Kind.COLLECTIVE.value: "collective", Kind.COPY.value: "copy", Kind.RUNTIME.value: RUNTIME}
_BY_DIRECTION = {"update": "optimizer"}


@cache
def operators_by_category() -> dict[str, list[str]]:
    """Return the canonical operators of each category, from op_categories.toml."""
    return packaged_toml("unified_profiler.analysis", "op_categories.toml")


@cache
def category_of_operator() -> dict[str, str]:
    """Return the category of each canonical operator that has one."""
    return {op: name for name, operators in operators_by_category().items() for op in operators}


def categories() -> tuple[str, ...]:
    """Return all categories, in the order in which they are shown."""
    return (*operators_by_category(), RUNTIME, OTHER)


def with_categories(events: EventTable) -> pa.Table:
    """Append a column `category`: by kind for collectives, copies and calls of a device's runtime, else by operator.

    Operators of an update are `optimizer`, apart from bookkeeping of the framework such as allocation. An event whose
    operator has no category gets that of its origin.
    """
    names = categories()
    column = pa.DictionaryArray.from_arrays(pa.array(category_codes(events), pa.int32()), pa.array(names))
    return events.append_column("category", column)


def category_codes(events: EventTable) -> Ints:
    """Return the index of each event's category in `categories()`."""
    number = {name: index for index, name in enumerate(categories())}
    of_operator = category_of_operator()
    codes = np.full(len(events), -1, np.int64)
    bookkeeping = {op: name for op, name in of_operator.items() if name == BOOKKEEPING}
    rules = (
        ("kind", _BY_KIND),
        ("op", bookkeeping),
        ("direction", _BY_DIRECTION),
        ("op", of_operator),
        ("origin", of_operator),
    )
    for column, category_of in rules:
        texts = coded(events, column)
        known = np.array([*(number.get(category_of.get(text, ""), -1) for text in texts.values), -1], np.int64)
        codes = np.where(codes < 0, known[texts.codes], codes)
    return np.where(codes < 0, number[OTHER], codes)
