"""Result: the immutable table that queries and analyses return."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import pyarrow as pa

from unified_profiler.errors import UsageError
from unified_profiler.keywords import did_you_mean
from unified_profiler.model.statements import Statement
from unified_profiler.presentation.tables import as_html, as_text
from unified_profiler.presentation.values import python_values


@dataclass(frozen=True, repr=False)
class Result:
    """Rows for programs, and a readable table for people.

    Attributes:
        table: The rows as a `pyarrow.Table`.
        headings: The columns of the printed table and their headings; None shows all columns.
        footer: Lines below the printed table.
        sorted_by: The column that the analysis sorts the rows by, if any.
        remarks: The same lines as statements (`table.*`), to print them in another language; empty where there are no
            statements for them.
    """

    table: pa.Table
    headings: Mapping[str, str] | None = None
    footer: tuple[str, ...] = ()
    sorted_by: str | None = None
    remarks: tuple[Statement, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.table.column_names)

    @cached_property
    def rows(self) -> tuple[Any, ...]:
        """The rows as named tuples. A column whose name is not a Python identifier is named by position: `_2`."""
        row = namedtuple("Row", self.columns, rename=True)  # type: ignore[misc]  # noqa: PYI024  names known only now
        values = [_values(column) for column in self.table.columns]
        return tuple(map(row, *values)) if values else ()

    def to_arrow(self) -> pa.Table:
        """Return the rows as a `pyarrow.Table`."""
        return self.table

    def to_pandas(self) -> Any:
        """Return the rows as a `pandas.DataFrame`.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: F401  to distinguish its absence from other errors
        except ImportError as error:
            msg = "to_pandas() needs pandas, which is not installed. Install it with: pip install pandas"
            raise UsageError(msg) from error
        return self.table.to_pandas(maps_as_pydicts="lossy")

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the rows."""
        return iter(self.rows)

    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    @overload
    def __getitem__(self, key: int) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, key: str | int | slice) -> Any:
        """Return a row by its number, rows by a slice, or the values of a column by its name.

        Raises:
            UsageError: There is no column of that name.
            IndexError: There is no row of that number.
        """
        if not isinstance(key, str):
            return self.rows[key]
        if key not in self.columns:
            msg = f"There is no column {key!r}.{did_you_mean(key, self.columns)} Columns: {', '.join(self.columns)}."
            raise UsageError(msg)
        return _values(self.table.column(self.columns.index(key)))

    def __str__(self) -> str:
        """Return an aligned table with units."""
        return as_text(self.table, headings=self.headings, footer=self.footer)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        return as_html(self.table, headings=self.headings, footer=self.footer)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return Python values, with maps as dictionaries unless their keys are lists or structs."""
    values = python_values(column)
    if pa.types.is_map(column.type) and not pa.types.is_nested(column.type.key_type):
        return [None if value is None else dict(value) for value in values]
    return values
