"""Assembles the text of table rows from parts: texts chosen by a code, numbers, and texts made for a block of rows.

All texts of a block are put into one Arrow array, and a single `take` of the texts of each row, in order, copies them
into one buffer. Adjacent parts with few combinations are combined beforehand, so that a row has few texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.nesting import Ints

Codes: TypeAlias = npt.NDArray[np.int32]
Flags: TypeAlias = npt.NDArray[np.bool_]

ROWS_PER_BLOCK = 1 << 14
"""Limits the text in memory at a time; an Arrow string array cannot exceed 2 GB."""
_MOST_COMBINATIONS = 1 << 13
_ROWS_PER_COMBINATION = 16
"""Combining pays only if a combination is used in that many rows."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Writes one of several texts in each row."""

    texts: Sequence[str]
    codes: Codes | None = None
    """Index of the text in each row; None if there is only one text, for all rows."""

    def pieces(self, rows: Ints) -> tuple[Any, Codes]:
        """Return texts and the index of each row's text among them."""
        index = np.zeros(len(rows), np.int32) if self.codes is None else self.codes[rows]
        return self._array, index

    @cached_property
    def _array(self) -> Any:
        return pa.array(self.texts, pa.string())

    def only_where(self, flags: Flags) -> Choice:
        """Return the same part with no text in the other rows."""
        codes = np.zeros(len(flags), np.int32) if self.codes is None else self.codes
        return Choice([*self.texts, ""], np.where(flags, codes, np.int32(len(self.texts))))


@dataclass(frozen=True, eq=False)
class PerRow:
    """Writes texts that are made for a block of rows, such as those of numbers; null for no text."""

    make: Callable[[Ints], Any]

    def pieces(self, rows: Ints) -> tuple[Any, Codes]:
        """Return texts and the index of each row's text among them."""
        return self.make(rows), np.arange(len(rows), dtype=np.int32)

    def only_where(self, flags: Flags) -> PerRow:
        """Return the same part with no text in the other rows."""

        def make(rows: Ints) -> Any:
            wanted = flags[rows]
            positions = np.cumsum(wanted) - 1
            return self.make(rows[wanted]).take(pa.array(positions, mask=~wanted))

        return PerRow(make)


Part: TypeAlias = Choice | PerRow


@dataclass(frozen=True, eq=False)
class RowText:
    """The text of each row: that of its parts, one after the other."""

    parts: tuple[Part, ...]

    def only_where(self, flags: Flags) -> RowText:
        """Return the same text, but none in the other rows."""
        return RowText(tuple(part.only_where(flags) for part in self.parts))

    def buffer(self, rows: Ints) -> Any:
        """Return the text of some rows as one buffer."""
        return self._assembled(rows)[1]

    def texts(self, rows: Ints) -> Any:
        """Return the text of each of some rows as an Arrow array."""
        offsets, data = self._assembled(rows)
        return pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets), data)

    def parts_of(self, rows: Ints, sizes: Sequence[int]) -> Iterator[Iterable[Any]]:
        """Yield the text of consecutive parts of some rows, each as buffers; small parts are assembled together.

        Args:
            rows: The rows of all parts.
            sizes: Number of rows of each part.
        """
        first = 0
        for together in _batches(sizes):
            own = rows[first : first + sum(together)]
            first += len(own)
            if len(own) > ROWS_PER_BLOCK:
                yield (self.buffer(block) for block in _split(own))
                continue
            offsets, data = self._assembled(own)
            ends = offsets[np.cumsum([0, *together])].tolist()
            yield from ([data.slice(begin, end - begin)] for begin, end in pairwise(ends))

    def _assembled(self, rows: Ints) -> tuple[Codes, Any]:
        """Return where each row begins and ends, and the text."""
        pools, index, size = [], np.empty((len(rows), len(self.parts)), np.int32), 0
        for number, part in enumerate(self.parts):
            texts, codes = part.pieces(rows)
            pools.append(texts)
            index[:, number] = codes + np.int32(size)
            size += len(texts)
        taken = pa.concat_arrays(pools).take(pa.array(index.ravel()))
        _, offsets, data = taken.buffers()
        ends: Codes = np.frombuffer(offsets, np.int32, len(taken) + 1)[:: len(self.parts)]
        return np.ascontiguousarray(ends), data.slice(0, int(ends[-1])) if data is not None else pa.py_buffer(b"")


def joined(texts: Sequence[RowText]) -> RowText:
    """Join texts row by row."""
    return RowText(tuple(_combined([part for text in texts for part in text.parts])))


def row_blocks(rows: range) -> Iterator[Ints]:
    """Yield row numbers in blocks."""
    yield from _split(np.arange(rows.start, rows.stop))


def _split(rows: Ints) -> Iterator[Ints]:
    for first in range(0, len(rows), ROWS_PER_BLOCK):
        yield rows[first : first + ROWS_PER_BLOCK]


def _batches(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield consecutive sizes together while their sum does not exceed a block."""
    batch: list[int] = []
    total = 0
    for size in sizes:
        if batch and total + size > ROWS_PER_BLOCK:
            yield batch
            batch, total = [], 0
        batch.append(size)
        total += size
    if batch:
        yield batch


def _combined(parts: Sequence[Part]) -> Iterator[Part]:
    """Combine adjacent choices."""
    pending: Choice | None = None
    for part in parts:
        if isinstance(part, Choice):
            both = None if pending is None else _combination(pending, part)
            if both is None and pending is not None:
                yield pending
            pending = both or part
            continue
        if pending is not None:
            yield pending
        pending = None
        yield part
    if pending is not None:
        yield pending


def _combination(first: Choice, second: Choice) -> Choice | None:
    """Return one choice instead of two, or None if there are too many combinations."""
    if first.codes is None or second.codes is None:
        codes = second.codes if first.codes is None else first.codes
        return Choice([a + b for a, b in product(first.texts, second.texts)], codes)
    most = min(_MOST_COMBINATIONS, len(first.codes) // _ROWS_PER_COMBINATION)
    if max(len(first.texts), len(second.texts)) > most:
        return None
    if len(first.texts) * len(second.texts) <= most:
        codes = first.codes * np.int32(len(second.texts)) + second.codes
        return Choice([a + b for a, b in product(first.texts, second.texts)], codes)
    return _used_combination(first, second, first.codes, second.codes, most)


def _used_combination(first: Choice, second: Choice, firsts: Codes, seconds: Codes, most: int) -> Choice | None:
    """Return one choice of only those combinations that some row has."""
    both = pa.array(firsts * np.int32(len(second.texts)) + seconds).dictionary_encode()
    if len(both.dictionary) > most:
        return None
    pairs = (divmod(pair, len(second.texts)) for pair in both.dictionary.to_pylist())
    return Choice([first.texts[a] + second.texts[b] for a, b in pairs], both.indices.to_numpy())
