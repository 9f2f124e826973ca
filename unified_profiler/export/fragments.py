"""Converts columns to the text of rows, mostly JSON: each distinct value is encoded once where it can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.export.row_text import Choice, Flags, PerRow, RowText, joined
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import JSON_COLUMNS, EventTable

_MOST_TEXTS = 1 << 13
"""Columns with more distinct texts are encoded block by block, which takes no memory for the whole column."""
_SAMPLE = 1 << 11
_FEW_IN_SAMPLE = _SAMPLE >> 3
_THREE_DIGITS = [f"{number:03d}" for number in range(1000)]
_THREE_DECIMALS = [f".{digits}" for digits in _THREE_DIGITS]
_SHORTEST_DECIMALS = [f".{digits.rstrip('0') or '0'}" for digits in _THREE_DIGITS]


def constant(text: str) -> RowText:
    """Write the same text in every row."""
    return RowText((Choice([text]),))


def lookup(texts: Sequence[str], index: npt.NDArray[Any]) -> RowText:
    """Write one of several texts, by the index of the text in each row."""
    return RowText((Choice(texts, index.astype(np.int32, copy=False)),))


def either(condition: Flags, true: RowText, false: RowText) -> RowText:
    """Write one of two texts, chosen by an array of booleans."""
    if condition.all():
        return true
    return joined([true.only_where(condition), false.only_where(~condition)]) if condition.any() else false


def member(events: EventTable, name: str, *, key: str | None = None) -> RowText:
    """Write a column as `,"key":value`, and nothing if it is null; the key defaults to the column's name."""
    column, prefix = events.column(name).combine_chunks(), f',"{key or name}":'
    if pa.types.is_dictionary(column.type):
        encode = embedded if name in JSON_COLUMNS else quoted
        return _texts(column, lambda text: prefix + encode(text))
    few = _with_few_values(column)
    if few is not None:
        numbers = [prefix + number for number in _numbers(few.dictionary).to_pylist()]
        return lookup([*numbers, ""], _indices(few))
    key_text = constant(prefix)
    if column.null_count:
        key_text = key_text.only_where(column.is_valid().to_numpy(zero_copy_only=False))
    return joined([key_text, RowText((PerRow(lambda rows: _numbers(column.take(pa.array(rows)))),))])


def inner_text(events: EventTable, name: str) -> RowText:
    """Write a text column as JSON strings without the quotes."""
    return _texts(events.column(name).combine_chunks(), inner_quoted)


def whole(numbers: Ints) -> RowText:
    """Write whole numbers."""
    return RowText((PerRow(lambda rows: pa.array(numbers[rows]).cast(pa.string())),))


def microseconds(nanoseconds: Ints) -> RowText:
    """Write nanoseconds as microseconds, exactly."""
    units = nanoseconds // 1000
    return joined([whole(units), lookup(_THREE_DECIMALS, nanoseconds - units * 1000)])


def shortest_microseconds(nanoseconds: Ints) -> RowText:
    """Write nanoseconds as microseconds, exactly, without zeros at the end: `1.5`, `2.0`."""
    units = nanoseconds // 1000
    return joined([whole(units), lookup(_SHORTEST_DECIMALS, nanoseconds - units * 1000)])


def milliseconds(nanoseconds: Ints) -> RowText:
    """Write nanoseconds as milliseconds, exactly."""
    return joined([microseconds(nanoseconds // 1000), lookup(_THREE_DIGITS, nanoseconds % 1000)])


def each_distinct(column: Any, encode: Callable[[str | None], str]) -> RowText:
    """Write a text column, encoding each distinct text once per block; for columns with many distinct texts."""

    def make(rows: Ints) -> Any:
        block = column.indices.take(pa.array(rows)).dictionary_encode(null_encoding="encode")
        texts = column.dictionary.take(block.dictionary).to_pylist()
        return pa.array([encode(text) for text in texts], pa.string()).take(block.indices)

    return RowText((PerRow(make),))


def quoted(text: str) -> str:
    """Return a JSON string."""
    return msgspec.json.encode(text).decode()


def inner_quoted(text: str) -> str:
    """Return a JSON string without its quotes."""
    return quoted(text)[1:-1]


def embedded(text: str) -> str:
    """Return the text itself if it is a JSON array or object, else a JSON string of it."""
    if text[:1] not in {"[", "{"} or text != text.rstrip():
        return quoted(text)
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return quoted(text)
    return text


def _texts(column: Any, encode: Callable[[str], str]) -> RowText:
    """Write a text column, and nothing where it is null."""
    if len(column.dictionary) > min(_MOST_TEXTS, len(column)):
        return each_distinct(column, lambda text: "" if text is None else encode(text))
    return lookup([*map(encode, column.dictionary.to_pylist()), ""], _indices(column))


def _indices(column: Any) -> npt.NDArray[Any]:
    """Return the indices of a dictionary array; that of a null is the one after the last."""
    indices = column.indices.fill_null(len(column.dictionary)) if column.null_count else column.indices
    array: npt.NDArray[Any] = indices.to_numpy()
    return array


def _with_few_values(column: Any) -> Any:
    """Return a column of numbers as a dictionary array if it has few distinct values, as a sample shows, else None."""
    step = max(len(column) // _SAMPLE, 1)
    sample = column.take(pa.array(np.arange(0, len(column), step)))
    if not pa.types.is_integer(column.type) or pc.count_distinct(sample).as_py() > _FEW_IN_SAMPLE:
        return None
    encoded = column.dictionary_encode()
    return encoded if len(encoded.dictionary) <= _MOST_TEXTS else None


def _numbers(values: Any) -> Any:
    """Return numbers as JSON; infinity and NaN, which JSON lacks, become strings."""
    plain = values.cast(pa.string())
    if not pa.types.is_floating(values.type):
        return plain
    plain = pc.if_else(pc.equal(plain, "-0"), "-0.0", plain)  # as an integer it would lose its sign
    return pc.if_else(pc.is_finite(values), plain, pc.binary_join_element_wise('"', plain, '"', ""))
