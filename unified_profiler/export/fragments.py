"""Columns as JSON text, a block of rows at a time: every distinct value is encoded once, Arrow does the joining."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import JSON_COLUMNS, EventTable

Fragment: TypeAlias = Callable[[Any], Any]
"""Takes an Arrow array of row numbers, returns the text of those rows, null where there is nothing to write."""


def joined(parts: Sequence[Fragment]) -> Fragment:
    """Join fragments row by row."""
    return lambda rows: pc.binary_join_element_wise(
        *(part(rows) for part in parts), "", null_handling="replace", null_replacement=""
    )


def constant(text: str) -> Fragment:
    """Write the same text in every row."""
    return lambda _: text


def chosen(texts: Sequence[str], index: Any) -> Fragment:
    """Write one of some texts, by an Arrow array which says for each row which one."""
    choices = pa.array(texts, pa.string())
    return lambda rows: choices.take(index.take(rows))


def either(condition: Any, true: Fragment, false: Fragment) -> Fragment:
    """Write one of two fragments, by an array of booleans."""
    flags = pa.array(condition)
    return lambda rows: pc.if_else(flags.take(rows), true(rows), false(rows))


def member(events: EventTable, name: str, *, key: str | None = None) -> Fragment:
    """Write a column as `,"key":value`; the key is the column's name if not given."""
    column, before = events.column(name).combine_chunks(), f',"{key or name}":'
    if not pa.types.is_dictionary(column.type):
        return lambda rows: pc.binary_join_element_wise(before, _numbers(column.take(rows)), "")
    encode = embedded if name in JSON_COLUMNS else quoted
    return chosen([before + encode(value) for value in column.dictionary.to_pylist()], column.indices)


def inner_text(events: EventTable, name: str) -> Fragment:
    """Write a text column as the inside of JSON strings, without their quotes."""
    column = events.column(name).combine_chunks()
    return chosen([quoted(value)[1:-1] for value in column.dictionary.to_pylist()], column.indices)


def whole(numbers: Ints) -> Fragment:
    """Write whole numbers."""
    column = pa.array(numbers)
    return lambda rows: column.take(rows).cast(pa.string())


def microseconds(nanoseconds: Ints) -> Fragment:
    """Write times in microseconds with all their decimals."""
    return _decimal(nanoseconds, decimals=3)


def milliseconds(nanoseconds: Ints) -> Fragment:
    """Write times in milliseconds with all their decimals."""
    return _decimal(nanoseconds, decimals=6)


def _decimal(nanoseconds: Ints, *, decimals: int) -> Fragment:
    """Write nanoseconds in a larger unit, without the detour over floating point."""
    units, rest = pa.array(nanoseconds // 10**decimals), pa.array(nanoseconds % 10**decimals)

    def fragment(rows: Any) -> Any:
        behind = pc.utf8_lpad(rest.take(rows).cast(pa.string()), width=decimals, padding="0")
        return pc.binary_join_element_wise(units.take(rows).cast(pa.string()), behind, ".")

    return fragment


def each_distinct(column: Any, encode: Callable[[str | None], str]) -> Fragment:
    """Write a text column with each distinct text encoded once per block of rows: for columns of many texts."""

    def fragment(rows: Any) -> Any:
        block = column.indices.take(rows).dictionary_encode(null_encoding="encode")
        texts = column.dictionary.take(block.dictionary).to_pylist()
        return pa.array([encode(text) for text in texts], pa.string()).take(block.indices)

    return fragment


def as_buffer(texts: Any, *, separator: str) -> Any:
    """Return the texts of a block of rows as one buffer."""
    return pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), separator)[0].as_buffer()


def quoted(text: str) -> str:
    """Return a JSON string."""
    return msgspec.json.encode(text).decode()


def embedded(text: str) -> str:
    """Return JSON text as it is if it is a valid array or object, and as a string otherwise."""
    if text[:1] not in {"[", "{"} or text != text.rstrip():
        return quoted(text)
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return quoted(text)
    return text


def _numbers(values: Any) -> Any:
    """Return numbers as JSON, which knows no infinity nor the like: those become strings."""
    plain = values.cast(pa.string())
    if not pa.types.is_floating(values.type):
        return plain
    plain = pc.if_else(pc.equal(plain, "-0"), "-0.0", plain)  # as a whole number it would lose its sign
    return pc.if_else(pc.is_finite(values), plain, pc.binary_join_element_wise('"', plain, '"', ""))
