"""Prints tables that fit the terminal, and in which names are never interpreted as markup."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TextIO

from rich.box import Box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unified_profiler.cli.fitting import GAP, Fit, FittedColumn, cut, fit, wrapped
from unified_profiler.presentation.tables import Column, Emphasis
from unified_profiler.presentation.texts import render_text, texts

_LARGE, _SMALL = 0.1, 0.01
"""Shares from which cells are highlighted, and below which they are dimmed."""
_STYLES: dict[Emphasis, str] = {"high": "bold yellow", "low": "dim", "": ""}
_LINES = "    \n    \n ── \n    \n    \n    \n    \n    \n"
_ASCII_LINES = _LINES.replace("─", "-")
_COMMAND = "unified-profiler "
"""Lines with a command are not broken, so that it can be copied."""
_NO_WIDTH = 100_000
"""Width of what is not fitted to a terminal."""
_MAX_NAMES = 6
"""Number of dropped columns that are named."""


def console_on(stream: TextIO | None) -> Console:
    """Return a console that interprets no names, on stdout if there is no stream.

    Without a terminal it has no width, so that nothing is cut or wrapped.
    """
    console = partial(Console, file=stream, highlight=False, markup=False, emoji=False)
    return console() if is_fitted(console()) else console(width=_NO_WIDTH)


def print_table(
    console: Console,
    columns: Sequence[Column],
    *,
    notes: Sequence[str] = (),
    below: Sequence[str] = (),
    keep: str | None = None,
    language: str = "en",
) -> None:
    """Print a table that fits the terminal.

    Args:
        console: The terminal.
        columns: The columns of the table.
        notes: Lines directly below the table, on what of it is not shown.
        below: Lines below these.
        keep: The name of a column that is always shown.
        language: The language of the line on columns that do not fit.
    """
    columns = [_encodable_column(column, console.encoding) for column in columns]
    fitted = fit(columns, console.width, keep=keep)
    if fitted.shown:
        console.print(_table(console, fitted))
    left_out = [_left_out(fitted.left_out, language)] if fitted.left_out else []
    print_lines(console, [*left_out, *notes], style="dim")
    if below:
        print_lines(console, ["", *below])


def print_lines(console: Console, lines: Sequence[str], *, style: str = "") -> None:
    """Print lines of text, which are broken between words to fit the terminal; those with a command are not."""
    for line in lines:
        text = encodable(line, console.encoding)
        parts = [text] if _COMMAND in line else wrapped(text, console.width)
        for part in parts:
            console.print(Text(part, style=style), soft_wrap=_COMMAND in line)


def is_fitted(console: Console) -> bool:
    """Return whether output fits a width: that of a terminal, or of the variable COLUMNS."""
    return console.is_terminal or "COLUMNS" in os.environ


def encodable(text: str, encoding: str) -> str:
    """Escape characters that the terminal cannot show."""
    if encoding.lower().startswith("utf"):
        return text
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _encodable_column(column: Column, encoding: str) -> Column:
    heading, *cells = (encodable(text, encoding) for text in (column.heading, *column.cells))
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
    emphasis = column.emphasis or [_emphasis_of_share(column, cell) for cell in column.cells]
    for cell, emphasized in zip(column.cells, emphasis, strict=True):
        text = cut(cell, fitted.width, mark=mark) if column.is_text else cell
        yield Text(text, style=_STYLES["low" if cell == "--" else emphasized])


def _emphasis_of_share(column: Column, cell: str) -> Emphasis:
    """Highlight large shares, and dim small ones."""
    if cell == "--" or not column.name.endswith("_share") or column.is_text:
        return ""
    share = float(cell.removesuffix("%")) / 100
    return "high" if share >= _LARGE else "low" if share < _SMALL else ""


def _left_out(columns: Sequence[Column], language: str) -> str:
    named = [column for column in columns if column.heading.strip()]
    names = [cut(column.heading, 30, mark="...") for column in named[:_MAX_NAMES]]
    more = ["..."] if len(named) > _MAX_NAMES else []
    separator = texts(language)["ui.list_separator"]
    return render_text("table.columns_left_out", {"names": separator.join([*names, *more])}, language=language)
