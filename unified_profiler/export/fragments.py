"""Converts columns to JSON text in blocks of rows: each distinct value is encoded once, and Arrow joins the texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import JSON_COLUMNS, EventTable

_BLOCK = 1 << 14
Fragment: TypeAlias = Callable[[Any], Any]
"""Takes an Arrow array of row numbers and returns the text of each, null for no text."""


def joined(parts: Sequence[Fragment]) -> Fragment:
    """Join fragments row by row."""
    return lambda rows: pc.binary_join_element_wise(
        *(part(rows) for part in parts), "", null_handling="replace", null_replacement=""
    )


def constant(text: str) -> Fragment:
    """Write the same text in every row."""
    return lambda _: text


def lookup(texts: Sequence[str], index: Any) -> Fragment:
    """Write one of several texts, by an Arrow array with the index of the text for each row."""
    values = pa.array(texts, pa.string())
    return lambda rows: values.take(index.take(rows))


def either(condition: Any, true: Fragment, false: Fragment) -> Fragment:
    """Write one of two fragments, chosen by an array of booleans."""
    flags = pa.array(condition)
    return lambda rows: pc.if_else(flags.take(rows), true(rows), false(rows))


def member(events: EventTable, name: str, *, key: str | None = None) -> Fragment:
    """Write a column as `,"key":value`; the key defaults to the column's name."""
    column, prefix = events.column(name).combine_chunks(), f',"{key or name}":'
    if not pa.types.is_dictionary(column.type):
        return lambda rows: pc.binary_join_element_wise(prefix, _numbers(column.take(rows)), "")
    encode = embedded if name in JSON_COLUMNS else quoted
    return lookup([prefix + encode(value) for value in column.dictionary.to_pylist()], column.indices)


def inner_text(events: EventTable, name: str) -> Fragment:
    """Write a text column as JSON strings without the quotes."""
    column = events.column(name).combine_chunks()
    return lookup([quoted(value)[1:-1] for value in column.dictionary.to_pylist()], column.indices)


def whole(numbers: Ints) -> Fragment:
    """Write whole numbers."""
    column = pa.array(numbers)
    return lambda rows: column.take(rows).cast(pa.string())


def microseconds(nanoseconds: Ints) -> Fragment:
    """Write nanoseconds as microseconds, exactly."""
    return _decimal(nanoseconds, decimals=3)


def milliseconds(nanoseconds: Ints) -> Fragment:
    """Write nanoseconds as milliseconds, exactly."""
    return _decimal(nanoseconds, decimals=6)


def _decimal(nanoseconds: Ints, *, decimals: int) -> Fragment:
    """Write nanoseconds in a larger unit without floating point."""
    units, rest = pa.array(nanoseconds // 10**decimals), pa.array(nanoseconds % 10**decimals)

    def fragment(rows: Any) -> Any:
        decimal_digits = pc.utf8_lpad(rest.take(rows).cast(pa.string()), width=decimals, padding="0")
        return pc.binary_join_element_wise(units.take(rows).cast(pa.string()), decimal_digits, ".")

    return fragment


def each_distinct(column: Any, encode: Callable[[str | None], str]) -> Fragment:
    """Write a text column, encoding each distinct text once per block; for columns with many distinct texts."""

    def fragment(rows: Any) -> Any:
        block = column.indices.take(rows).dictionary_encode(null_encoding="encode")
        texts = column.dictionary.take(block.dictionary).to_pylist()
        return pa.array([encode(text) for text in texts], pa.string()).take(block.indices)

    return fragment


def row_blocks(rows: range) -> Iterator[Any]:
    """Yield row numbers in blocks, to limit the text in memory at a time."""
    for first in range(rows.start, rows.stop, _BLOCK):
        yield pa.array(np.arange(first, min(first + _BLOCK, rows.stop)))


def as_buffer(texts: Any, *, separator: str) -> Any:
    """Return the texts of a block of rows as one buffer."""
    return pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), separator)[0].as_buffer()


def quoted(text: str) -> str:
    """Return a JSON string."""
    return msgspec.json.encode(text).decode()


def embedded(text: str) -> str:
    """Return the text itself if it is a JSON array or object, else a JSON string of it."""
    if text[:1] not in {"[", "{"} or text != text.rstrip():
        return quoted(text)
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return quoted(text)
    return text


def _numbers(values: Any) -> Any:
    """Return numbers as JSON; infinity and NaN, which JSON lacks, become strings."""
    plain = values.cast(pa.string())
    if not pa.types.is_floating(values.type):
        return plain
    plain = pc.if_else(pc.equal(plain, "-0"), "-0.0", plain)  # as an integer it would lose its sign
    return pc.if_else(pc.is_finite(values), plain, pc.binary_join_element_wise('"', plain, '"', ""))
