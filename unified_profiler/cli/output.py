"""Printing results: as a table for people, as JSON or CSV for programs."""

from __future__ import annotations

import csv
import json
import os
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

if TYPE_CHECKING:
    from unified_profiler.analysis import Result


class Format(Enum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


MOST_ROWS = 100
"""Rows of a table for people whose number nobody limited."""


def show(result: Result, form: Format, *, most_rows: int | None = MOST_ROWS) -> None:
    """Print a result on stdout.

    Args:
        result: What to print.
        form: How. Programs get all rows and values.
        most_rows: The most rows of a table for people; None for all.
    """
    if form is Format.JSON:
        records = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
        typer.echo(json.dumps(records, indent=2, default=str))
    elif form is Format.CSV:
        _print_csv(result)
    else:
        show_table(result, most_rows=most_rows)


def _print_csv(result: Result) -> None:
    from unified_profiler.export.spreadsheets import inert

    writer = csv.writer(sys.stdout)
    for row in (result.columns, *result.rows):
        writer.writerow([inert(value) if isinstance(value, str) else value for value in row])


def show_table(result: Result, *, most_rows: int | None, stream: TextIO | None = None) -> None:
    """Print a table for people, on stdout if nothing else is given.

    It fits into the window; where there is none, nothing is left out, for `grep` and `less -S`.
    """
    from rich.console import Console

    from unified_profiler.cli.terminal import print_table
    from unified_profiler.engine.rendering import as_text, columns_of, lines_below

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        text = as_text(result.table, headings=result.headings, footer=result.footer, most_rows=most_rows)
        typer.echo(text.encode(console.encoding, "backslashreplace").decode(console.encoding), file=stream)
        return
    columns = columns_of(result.table, headings=result.headings, most_rows=most_rows, spread=True)
    below = lines_below(result.table, result.footer, most_rows=most_rows)
    print_table(console, columns, below=below, keep=result.sorted_by)


def write_or_print(text: str, out: Path | None) -> None:
    """Write a document and say where it is; print it if there is no such place."""
    if out is None:
        typer.echo(text, nl=False)
        return
    from unified_profiler.export import writing_to
    from unified_profiler.model.storage import write_text

    with writing_to(out):
        write_text(out, text)
    typer.echo(str(out))
