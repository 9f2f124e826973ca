"""Prints tables that fit the terminal, and in which names are never interpreted as markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.box import Box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unified_profiler.cli.fitting import GAP, Fit, FittedColumn, cut, fit
from unified_profiler.presentation.tables import Column

_LARGE, _SMALL = 0.1, 0.01
"""Shares from which cells are highlighted, and below which they are dimmed."""
_LINES = "    \n    \n ── \n    \n    \n    \n    \n    \n"
_ASCII_LINES = _LINES.replace("─", "-")
_COMMAND = "unified-profiler "
"""Lines with a command are not broken, so that it can be copied."""
_MAX_NAMES = 6
"""Number of dropped columns that are named."""


def print_table(
    console: Console, columns: Sequence[Column], *, below: Sequence[str] = (), keep: str | None = None
) -> None:
    """Print a table that fits the terminal.

    Args:
        console: The terminal.
        columns: The columns of the table.
        below: Lines below the table.
        keep: The name of a column that is always shown.
    """
    columns = [_encodable(column, console.encoding) for column in columns]
    fitted = fit(columns, console.width, keep=keep)
    if fitted.shown:
        console.print(_table(console, fitted))
    for line in below:
        console.print(Text(line), soft_wrap=_COMMAND in line)
    if fitted.left_out:
        console.print(Text(_left_out(fitted.left_out), style="dim"))


def _encodable(column: Column, encoding: str) -> Column:
    """Escape characters that the terminal cannot show."""
    if encoding.lower().startswith("utf"):
        return column
    heading, *cells = (
        text.encode(encoding, "backslashreplace").decode(encoding) for text in (column.heading, *column.cells)
    )
    return replace(column, heading=heading, cells=cells)


def _table(console: Console, fitted: Fit) -> Table:
    unicode = console.encoding.lower().startswith("utf")
    table = Table(
        box=Box(_LINES if unicode else _ASCII_LINES, ascii=not unicode),
        show_edge=False,
        pad_edge=False,
        padding=(0, GAP - 1, 0, 0),
        header_style="bold",
        border_style="dim",
    )
    for each in fitted.shown:
        table.add_column(
            _heading(console, each),
            justify="left" if each.column.is_text else "right",
            width=each.width,
            no_wrap=True,
            vertical="bottom",
        )
    for cells in zip(*(_cells(each, "…" if unicode else "...") for each in fitted.shown), strict=True):
        table.add_row(*cells)
    return table


def _heading(console: Console, fitted: FittedColumn) -> Text:
    """Wrap a heading between its words, and within them only if necessary."""
    return Text("\n").join(Text(fitted.column.heading).wrap(console, fitted.width))


def _cells(fitted: FittedColumn, mark: str) -> Iterator[Text]:
    column = fitted.column
    for cell in column.cells:
        text = cut(cell, fitted.width, mark=mark) if column.is_text else cell
        yield Text(text, style=_style(column, cell))


def _style(column: Column, cell: str) -> str:
    """Highlight large shares, and dim small and missing ones."""
    if cell == "--":
        return "dim"
    if not column.name.endswith("_share") or column.is_text:
        return ""
    share = float(cell.removesuffix("%")) / 100
    return "bold yellow" if share >= _LARGE else "dim" if share < _SMALL else ""


def _left_out(columns: Sequence[Column]) -> str:
    named = [column for column in columns if column.heading.strip()]
    names = [cut(column.heading, 30, mark="...") for column in named[:_MAX_NAMES]]
    more = ["..."] if len(named) > _MAX_NAMES else []
    are = "1 column is" if len(columns) == 1 else f"{len(columns)} columns are"
    return f"{are} not shown ({', '.join([*names, *more])}): widen the terminal, or add --json."
