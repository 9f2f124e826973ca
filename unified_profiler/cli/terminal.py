"""Results in a terminal: a table that fits the window, in which no name is taken for markup."""

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
"""Shares that stand out, and that step back."""
_LINES = "    \n    \n ── \n    \n    \n    \n    \n    \n"
_LINES_OF_ASCII = _LINES.replace("─", "-")
_NAMED = 6
"""How many of the columns that are left out are named."""


def print_table(
    console: Console, columns: Sequence[Column], *, below: Sequence[str] = (), keep: str | None = None
) -> None:
    """Print a table that fits the window.

    Args:
        console: Where to.
        columns: What it holds.
        below: Lines below it.
        keep: The name of a column that is shown in any window.
    """
    columns = [_encodable(column, console.encoding) for column in columns]
    found = fit(columns, console.width, keep=keep)
    if found.shown:
        console.print(_table(console, found))
    for line in below:
        console.print(Text(line))
    if found.left_out:
        console.print(Text(_left_out(found.left_out), style="dim"))


def _encodable(column: Column, encoding: str) -> Column:
    """Spell out what the terminal cannot show."""
    if encoding.lower().startswith("utf"):
        return column
    heading, *cells = (
        text.encode(encoding, "backslashreplace").decode(encoding) for text in (column.heading, *column.cells)
    )
    return replace(column, heading=heading, cells=cells)


def _table(console: Console, found: Fit) -> Table:
    unicode = console.encoding.lower().startswith("utf")
    table = Table(
        box=Box(_LINES if unicode else _LINES_OF_ASCII, ascii=not unicode),
        show_edge=False,
        pad_edge=False,
        padding=(0, GAP - 1, 0, 0),
        header_style="bold",
        border_style="dim",
    )
    for each in found.shown:
        table.add_column(
            _heading(console, each),
            justify="left" if each.column.is_text else "right",
            width=each.width,
            no_wrap=True,
            vertical="bottom",
        )
    for cells in zip(*(_cells(each, "…" if unicode else "...") for each in found.shown), strict=True):
        table.add_row(*cells)
    return table


def _heading(console: Console, fitted: FittedColumn) -> Text:
    """Fold a heading between its words, and within them only if it must be."""
    return Text("\n").join(Text(fitted.column.heading).wrap(console, fitted.width))


def _cells(fitted: FittedColumn, mark: str) -> Iterator[Text]:
    column = fitted.column
    for cell in column.cells:
        text = cut(cell, fitted.width, mark=mark) if column.is_text else cell
        yield Text(text, style=_style(column, cell))


def _style(column: Column, cell: str) -> str:
    """Let large shares stand out, and what is small or missing step back."""
    if cell == "--":
        return "dim"
    if not column.name.endswith("_share") or column.is_text:
        return ""
    share = float(cell.removesuffix("%")) / 100
    return "bold yellow" if share >= _LARGE else "dim" if share < _SMALL else ""


def _left_out(columns: Sequence[Column]) -> str:
    names = [cut(column.heading, 30, mark="...") for column in columns[:_NAMED]]
    more = ["..."] if len(columns) > _NAMED else []
    are = "1 column is" if len(columns) == 1 else f"{len(columns)} columns are"
    return f"{are} not shown ({', '.join([*names, *more])}): widen the window, or ask for JSON."
