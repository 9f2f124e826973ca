"""Result: the immutable table that queries and analyses return."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from unified_profiler.errors import UsageError
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
    """

    table: pa.Table
    headings: Mapping[str, str] | None = None
    footer: tuple[str, ...] = ()
    sorted_by: str | None = None

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

    def __repr__(self) -> str:
        """Return a one-line summary."""
        return f"<Result {len(self)} rows: {', '.join(self.columns)}>"

    def __str__(self) -> str:
        """Return an aligned table with units."""
        return as_text(self.table, headings=self.headings, footer=self.footer)

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        return as_html(self.table, headings=self.headings, footer=self.footer)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return Python values, with maps as dictionaries unless their keys are lists or structs."""
    values = python_values(column)
    if pa.types.is_map(column.type) and not pa.types.is_nested(column.type.key_type):
        return [None if value is None else dict(value) for value in values]
    return values
