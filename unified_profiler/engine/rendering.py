"""How a table is shown to people: aligned text and HTML, with units as torch's profiler prints them.

What a number is follows from its column's name: `_ns` a duration, `_bytes` memory, `_share` a part of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import pyarrow as pa

MOST_ROWS = 100
WIDEST_CELL = 55
_MISSING = "--"
_MOMENTS = ("start_ns", "end_ns")  # points in time, of which a unit with three decimals would show too little


def as_text(table: pa.Table, *, headings: Mapping[str, str] | None, footer: Sequence[str] = ()) -> str:
    """Return an aligned table; long cells are cut, and so are tables of more than `MOST_ROWS` rows."""
    columns = [
        _aligned([heading, *_cells(table, index)], left=_is_text(table, index))
        for index, heading in _shown(table, headings)
    ]
    head, *body = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)] or [""]
    rule = "  ".join("-" * _width(column) for column in columns)
    return "\n".join([rule, head, rule, *body, rule, *_below(table, footer)])


def as_html(table: pa.Table, *, headings: Mapping[str, str] | None, footer: Sequence[str] = ()) -> str:
    """Return an HTML table in which every text is escaped."""
    shown = _shown(table, headings)
    columns = [_cells(table, index) for index, _ in shown]
    head = "".join(f"<th>{escape(_one_line(heading))}</th>" for _, heading in shown)
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in zip(*columns, strict=True))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    below = "".join(f"<p>{escape(line)}</p>" for line in _below(table, footer))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def format_time(nanoseconds: float) -> str:
    """Format a duration as torch does: in us, ms or s with three decimals."""
    size = abs(nanoseconds)
    if size >= 1_000_000_000:
        return f"{nanoseconds / 1_000_000_000:.3f}s"
    if size >= 1_000_000:
        return f"{nanoseconds / 1_000_000:.3f}ms"
    return f"{nanoseconds / 1000:.3f}us"


def format_bytes(count: float) -> str:
    """Format a size as torch does: in B, KB, MB or GB of 1024."""
    for unit, size in (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:g} B"


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


def _cells(table: pa.Table, index: int) -> list[str]:
    show = _formatter(table.column_names[index])
    return [_show(value, show) for value in table.column(index).slice(0, MOST_ROWS).to_pylist()]


def _show(value: Any, show: Callable[[float], str]) -> str:
    if value is None:
        return _MISSING
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return show(value)
    if isinstance(value, list) and all(isinstance(item, tuple) for item in value):
        return ", ".join(f"{_one_line(str(key))} {_show(item, show)}" for key, item in value)
    return _one_line(str(value))


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


def _one_line(text: str) -> str:
    """Spell out what would break the line or hide in it: newlines, control and direction characters."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def _aligned(cells: Sequence[str], *, left: bool) -> list[str]:
    from rich.cells import cell_len, set_cell_size

    cut = [_cut(_one_line(cell)) for cell in cells]
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


def _is_text(table: pa.Table, index: int) -> bool:
    kind = table.schema.field(index).type
    return not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _below(table: pa.Table, footer: Sequence[str]) -> list[str]:
    more = table.num_rows - MOST_ROWS
    return [*([f"... and {more} more rows"] if more > 0 else []), *footer]
