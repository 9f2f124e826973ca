"""Converts columns of event tables to numpy arrays; text becomes integer codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.arrow_arrays import number_array
from unified_profiler.model.nesting import Ints, whole_numbers
from unified_profiler.model.schema import EventTable

Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


_FEW = 8
"""Up to this number of codes, comparing with each is faster than looking up every row."""
_ROWS_PER_TEXT = 32
"""Up to this number of rows per text, looking for texts that no row has takes less time than converting them."""


@dataclass(frozen=True)
class Coded:
    """A text column: one code per row, -1 where it is null."""

    codes: Codes
    values: list[str]

    def where(self, holds: Callable[[str], bool]) -> Flags:
        """Return the rows whose text satisfies a predicate, which is called once per distinct text, never for null."""
        answers = np.array([*(holds(value) for value in self.values), False])
        if answers.sum() > _FEW:
            flags: Flags = answers[self.codes]
            return flags
        flags = np.zeros(len(self.codes), np.bool_)
        for code in np.flatnonzero(answers):
            flags |= self.codes == code
        return flags


def coded(events: EventTable, name: str) -> Coded:
    """Return a text column; of few rows, only the texts that they have."""
    column = events.column(name).unify_dictionaries().combine_chunks()
    indices = column.indices.fill_null(-1) if column.null_count else column.indices
    codes, texts = indices.to_numpy(zero_copy_only=False), column.dictionary
    if len(codes) < _ROWS_PER_TEXT * len(texts):
        used = np.bincount(codes + 1, minlength=len(texts) + 1)[1:] > 0
        texts = texts.filter(pa.array(used))
        codes = np.where(codes < 0, -1, (np.cumsum(used) - 1)[codes])
    return Coded(codes, texts.to_pylist())


def ints(events: EventTable, name: str, *, null: int = -1) -> Ints:
    """Return a column of whole numbers."""
    return whole_numbers(events.column(name), null=null)


def ints_at(events: EventTable, name: str, rows: Ints, *, null: int = -1) -> Ints:
    """Return a column of whole numbers of some rows."""
    return whole_numbers(events.column(name).take(number_array(rows)), null=null)


def numbered(columns: Sequence[npt.NDArray[Any]]) -> Ints:
    """Number the distinct combinations of values."""
    group = ranked(columns[0])
    for values in columns[1:]:
        number = ranked(values)
        group = ranked(group * (number.max(initial=0) + 1) + number)
    return group


def ranked(values: npt.NDArray[Any]) -> Ints:
    """Return the rank of each value among the distinct values, from 0; values of a small range need no sorting."""
    if not len(values):
        return np.zeros(0, np.int64)
    smallest, largest = int(values.min()), int(values.max())
    ranks: Ints
    if largest - smallest >= 4 * len(values):
        ranks = np.unique(values, return_inverse=True)[1]
        return ranks
    offsets = values.astype(np.int64) - smallest
    is_used = np.zeros(largest - smallest + 1, np.bool_)
    is_used[offsets] = True
    ranks = (np.cumsum(is_used) - 1)[offsets]
    return ranks


def thread_numbers(events: EventTable) -> Ints:
    """Number the threads of a trace, which are identified by process and thread id."""
    return numbered([ints(events, name) for name in ("pid", "tid")])
