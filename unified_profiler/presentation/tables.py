"""How a table is shown to people: aligned text and HTML, with units as torch's profiler prints them.

What a number is follows from its column's name: `_ns` a duration, `_bytes` memory, `_share` a part of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from unified_profiler.presentation.html import html_paragraphs, html_table
from unified_profiler.presentation.text import one_line
from unified_profiler.presentation.units import format_bytes, format_time
from unified_profiler.presentation.values import python_values

__all__ = ["Column", "as_html", "as_text", "columns_of", "format_bytes", "format_time", "lines_below", "one_line"]

MOST_ROWS = 100
WIDEST_CELL = 55
_MISSING = "--"
_MOMENTS = ("start_ns", "end_ns")  # points in time, of which a unit with three decimals would show too little


@dataclass(frozen=True)
class Column:
    """A column as people see it: every cell one line of printable text, however long."""

    name: str
    heading: str
    cells: Sequence[str]
    is_text: bool
    says_nothing: bool = False
    """Whether all of its values are zero or missing."""


def columns_of(
    table: pa.Table, *, headings: Mapping[str, str] | None, most_rows: int | None = MOST_ROWS, spread: bool = False
) -> list[Column]:
    """Return the columns to be shown, with units.

    Args:
        table: The values.
        headings: The columns to be shown, and what they are called; None shows all.
        most_rows: Tables of more rows are cut.
        spread: Whether maps become a column for each of their keys.
    """
    first = table.slice(0, most_rows)
    return [column for index, heading in _shown(table, headings) for column in _columns(first, index, heading, spread)]


def lines_below(table: pa.Table, footer: Sequence[str], *, most_rows: int | None = MOST_ROWS) -> list[str]:
    """Return the lines below a table, of which the first says how many rows were cut."""
    more = 0 if most_rows is None else table.num_rows - most_rows
    return [*([f"... and {more} more rows"] if more > 0 else []), *map(one_line, footer)]


def as_text(
    table: pa.Table,
    *,
    headings: Mapping[str, str] | None,
    footer: Sequence[str] = (),
    most_rows: int | None = MOST_ROWS,
) -> str:
    """Return an aligned table; long cells are cut, and so are tables of more than `most_rows` rows."""
    shown = columns_of(table, headings=headings, most_rows=most_rows)
    columns = [_aligned([column.heading, *column.cells], left=column.is_text) for column in shown]
    head, *body = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)] or [""]
    rule = "  ".join("-" * _width(column) for column in columns)
    return "\n".join([rule, head, rule, *body, rule, *lines_below(table, footer, most_rows=most_rows)])


def as_html(table: pa.Table, *, headings: Mapping[str, str] | None, footer: Sequence[str] = ()) -> str:
    """Return an HTML table in which every text is escaped, long ones are cut, and so are tables of many rows."""
    shown = columns_of(table, headings=headings)
    body = zip(*(column.cells for column in shown), strict=True)
    left = [column.is_text for column in shown]
    return html_table([column.heading for column in shown], body, left=left) + html_paragraphs(
        lines_below(table, footer)
    )


def _shown(table: pa.Table, headings: Mapping[str, str] | None) -> list[tuple[int, str]]:
    """Return positions and headings: names may occur twice in a query's result."""
    if headings is not None:
        return [(table.schema.get_field_index(name), heading) for name, heading in headings.items()]
    return [(index, _without_unit(name)) for index, name in enumerate(table.column_names)]


def _without_unit(name: str) -> str:
    """The cells carry their units: a heading that says ns over a cell that says ms would mislead."""
    if name in _MOMENTS:
        return name
    return name.removesuffix("_ns").removesuffix("_bytes") or name


def _columns(table: pa.Table, index: int, heading: str, spread: bool) -> Iterator[Column]:
    field, values = table.schema.field(index), python_values(table.column(index))
    if not (spread and pa.types.is_map(field.type)):
        yield _column(field.name, heading, values, field.type)
        return
    maps = [dict(value or ()) for value in values]
    for key in dict.fromkeys(key for each in maps for key in each):
        yield _column(field.name, str(key), [each.get(key) for each in maps], field.type.item_type)


def _column(name: str, heading: str, values: Sequence[Any], kind: pa.DataType) -> Column:
    show = _formatter(name)
    return Column(
        name=name,
        heading=one_line(heading),
        cells=[_show(value, show) for value in values],
        is_text=_is_text(kind),
        says_nothing=not any(values),
    )


def _show(value: Any, show: Callable[[float], str]) -> str:
    if value is None:
        return _MISSING
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return show(value)
    if isinstance(value, list) and all(isinstance(item, tuple) for item in value):
        return ", ".join(f"{one_line(str(key))} {_show(item, show)}" for key, item in value)
    return one_line(str(value))


def _formatter(name: str) -> Callable[[float], str]:
    if name.endswith("_ns") and name not in _MOMENTS:
        return format_time
    if name.endswith("_bytes"):
        return format_bytes
    if name.endswith("_share"):
        return "{:.2%}".format
    return _plain


def _plain(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _aligned(cells: Sequence[str], *, left: bool) -> list[str]:
    from rich.cells import cell_len, set_cell_size

    cut = [_cut(cell) for cell in cells]
    width = _width(cut)
    if left:
        return [set_cell_size(cell, width) for cell in cut]
    return [" " * (width - cell_len(cell)) + cell for cell in cut]


def _width(cells: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, cells))


def _cut(text: str) -> str:
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= WIDEST_CELL else set_cell_size(text, WIDEST_CELL - 3) + "..."


def _is_text(kind: pa.DataType) -> bool:
    return not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
