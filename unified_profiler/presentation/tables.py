"""Formats tables as aligned text and HTML, with units as torch's profiler prints them.

The last word of a column's name determines its unit: `ns` for durations, `bytes` for memory, `share` for fractions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from unified_profiler.presentation.html import html_paragraphs, html_table
from unified_profiler.presentation.text import one_line
from unified_profiler.presentation.texts import render_text
from unified_profiler.presentation.units import format_bytes, format_ratio, format_time
from unified_profiler.presentation.values import python_values

__all__ = [
    "Column",
    "as_html",
    "as_text",
    "columns_of",
    "format_bytes",
    "format_time",
    "lines_below",
    "one_line",
    "rows_shown",
]

MOST_ROWS = 100
WIDEST_CELL = 55
_MISSING = "--"
_TIMESTAMPS = ("start_ns", "end_ns")  # shown in full: a unit with three decimals would hide most digits
_FORMATS: dict[str, Callable[[float], str]] = {
    "ns": format_time,
    "bytes": format_bytes,
    "share": "{:.2%}".format,
    "count": "{:,}".format,
    "ratio": format_ratio,
}
_MEANS = re.compile(r"(algorithm_|bus_)?bandwidth(_\w+)?|length_\w+|variation")
"""Columns of measurements without a unit in their name."""


Emphasis = Literal["", "high", "low"]
"""Whether a cell of a table is highlighted or dimmed in a terminal."""
EmphasisByColumn = Mapping[str, Sequence[Emphasis]]
"""The emphasis of all cells of some columns."""


@dataclass(frozen=True)
class Column:
    """A formatted column: every cell is one line of printable text of any length."""

    name: str
    heading: str
    cells: Sequence[str]
    is_text: bool
    is_blank: bool = False
    """Whether all of its values are zero or missing."""
    emphasis: Sequence[Emphasis] = ()
    """How each cell is emphasized; if empty, shares are by their size."""


def columns_of(
    table: pa.Table, *, headings: Mapping[str, str] | None, most_rows: int | None = MOST_ROWS, spread: bool = False
) -> list[Column]:
    """Return the formatted columns of a table.

    Args:
        table: The values.
        headings: Names and headings of the columns to show; None shows all.
        most_rows: Number of rows to show; None shows all.
        spread: Whether a map column becomes one column per key.
    """
    rows = table.slice(0, most_rows)
    return [column for index, heading in _chosen(table, headings) for column in _columns(rows, index, heading, spread)]


def lines_below(
    table: pa.Table, footer: Sequence[str], *, most_rows: int | None = MOST_ROWS, language: str = "en"
) -> list[str]:
    """Return the lines below a table: how many of its rows are shown, unless all are, and the footer."""
    return [*rows_shown(table, most_rows, language=language), *map(one_line, footer)]


def rows_shown(table: pa.Table, most_rows: int | None, *, language: str = "en") -> list[str]:
    """Return a line with the numbers of rows, unless all are shown."""
    if most_rows is None or table.num_rows <= most_rows:
        return []
    counts = {"shown_count": most_rows, "all_count": table.num_rows}
    return [render_text("table.rows_shown", counts, language=language)]


def as_text(
    table: pa.Table,
    *,
    headings: Mapping[str, str] | None,
    footer: Sequence[str] = (),
    most_rows: int | None = MOST_ROWS,
    widest: int | None = WIDEST_CELL,
    language: str = "en",
) -> str:
    """Return aligned text, with cells wider than `widest` and rows beyond `most_rows` cut."""
    shown = columns_of(table, headings=headings, most_rows=most_rows)
    columns = [_aligned([column.heading, *column.cells], left=column.is_text, widest=widest) for column in shown]
    rule, *lines = ["  ".join(row) for row in zip(*columns, strict=True)] or ["", ""]
    head, *body = [line.rstrip() for line in lines]
    below = lines_below(table, footer, most_rows=most_rows, language=language)
    return "\n".join([rule, head, rule, *body, rule, *below])


def as_html(table: pa.Table, *, headings: Mapping[str, str] | None, footer: Sequence[str] = ()) -> str:
    """Return an HTML table with all text escaped, and long texts and rows beyond MOST_ROWS cut."""
    shown = columns_of(table, headings=headings)
    body = zip(*(column.cells for column in shown), strict=True)
    left = [column.is_text for column in shown]
    return html_table([column.heading for column in shown], body, left=left) + html_paragraphs(
        lines_below(table, footer)
    )


def _chosen(table: pa.Table, headings: Mapping[str, str] | None) -> list[tuple[int, str]]:
    """Return indices and headings; indices, since names may occur twice in the result of a query."""
    if headings is not None:
        return [(table.schema.get_field_index(name), heading) for name, heading in headings.items()]
    return list(enumerate(table.column_names))


def _columns(table: pa.Table, index: int, heading: str, spread: bool) -> Iterator[Column]:
    field, values = table.schema.field(index), python_values(table.column(index))
    if not (spread and pa.types.is_map(field.type)):
        yield _column(field.name, heading, values, field.type)
        return
    maps = [dict(value or ()) for value in values]
    for key in dict.fromkeys(key for each in maps for key in each):
        yield _column(field.name, str(key), [each.get(key) for each in maps], field.type.item_type)


def _column(name: str, heading: str, values: Sequence[Any], kind: pa.DataType) -> Column:
    format_number = _number_format(name)
    return Column(
        name=name,
        heading=one_line(heading),
        cells=[_format_cell(value, format_number) for value in values],
        is_text=_is_text(kind),
        is_blank=not any(values),
    )


def _format_cell(value: Any, format_number: Callable[[float], str]) -> str:
    if value is None:
        return _MISSING
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return format_number(value)
    if isinstance(value, list) and all(isinstance(item, tuple) for item in value):
        return ", ".join(f"{one_line(str(key))} {_format_cell(item, format_number)}" for key, item in value)
    return one_line(str(value))


def _number_format(name: str) -> Callable[[float], str]:
    if name in _TIMESTAMPS:
        return _plain
    return _mean if _MEANS.fullmatch(name) else _FORMATS.get(name.rpartition("_")[2], _plain)


def _mean(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:,.3f}"


def _plain(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _aligned(cells: Sequence[str], *, left: bool, widest: int | None) -> list[str]:
    """Return a rule, then the cells, cut and padded to one width."""
    from rich.cells import cell_len, set_cell_size

    width = max(map(cell_len, cells))
    cut = cells
    if widest is not None and width > widest:
        cut = [cell if cell_len(cell) <= widest else set_cell_size(cell, widest - 3) + "..." for cell in cells]
        width = widest
    padded = [set_cell_size(cell, width) if left else " " * (width - cell_len(cell)) + cell for cell in cut]
    return ["-" * width, *padded]


def _is_text(kind: pa.DataType) -> bool:
    return not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
