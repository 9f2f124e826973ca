"""Prints results: as a table for people, as JSON or CSV for programs."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import sys
from collections.abc import Sequence
from decimal import Decimal
from enum import Enum
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

if TYPE_CHECKING:
    from unified_profiler.analysis import Result


OutputOption = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file instead of printing.")]


class Format(Enum):
    """Output format of a result."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Characters that control terminals, which RFC 4180 does not allow in CSV. Tabs and line breaks are allowed."""

MOST_ROWS = 100
"""Default limit for the rows of a table for people."""


def show(result: Result, form: Format, *, most_rows: int | None = MOST_ROWS) -> None:
    """Print a result on stdout.

    Args:
        result: The result to print.
        form: The format; JSON and CSV contain all rows and values.
        most_rows: Maximum number of rows of a table for people; None for all.
    """
    if form is Format.JSON:
        names = _unique(result.columns)
        records = [dict(zip(names, map(_json_value, row), strict=True)) for row in result.rows]
        typer.echo(json.dumps(records, indent=2, default=str, allow_nan=False))
    elif form is Format.CSV:
        _print_csv(result)
    else:
        show_table(result, most_rows=most_rows)


def _unique(names: Sequence[str]) -> list[str]:
    """Number columns of the same name, since a JSON object has one value per name: a, a_1, a_2."""
    unique: dict[str, None] = {}
    for name in names:
        candidates = chain([name], (f"{name}_{number}" for number in count(1)))
        unique[next(candidate for candidate in candidates if candidate not in unique)] = None
    return list(unique)


def _json_value(value: Any) -> Any:
    """Return a value that JSON can represent: null for NaN and infinity, strings for the keys of a map."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    return value


def _print_csv(result: Result) -> None:
    writer = csv.writer(sys.stdout)
    plain = (int, float, Decimal, type(None))
    for row in (result.columns, *result.rows):
        writer.writerow([value if isinstance(value, plain) else _csv_text(str(value)) for value in row])


def _csv_text(text: str) -> str:
    """Return text that neither a spreadsheet nor a terminal executes: control characters are escaped."""
    from unified_profiler.export.spreadsheets import inert

    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), inert(text))


def show_table(result: Result, *, most_rows: int | None, stream: TextIO | None = None) -> None:
    """Print a table for people, by default on stdout.

    It fits the terminal; without a terminal nothing is left out, for `grep` and `less -S`.
    """
    from rich.console import Console

    from unified_profiler.cli.terminal import print_table
    from unified_profiler.presentation.tables import as_text, columns_of, lines_below

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        text = as_text(result.table, headings=result.headings, footer=result.footer, most_rows=most_rows)
        typer.echo(text.encode(console.encoding, "backslashreplace").decode(console.encoding), file=stream)
        return
    columns = columns_of(result.table, headings=result.headings, most_rows=most_rows, spread=True)
    below = lines_below(result.table, result.footer, most_rows=most_rows)
    print_table(console, columns, below=below, keep=result.sorted_by)


def write_or_print(text: str, out: Path | None) -> None:
    """Write a document to a file and print the path of that, or print the document if there is no path."""
    if out is None:
        typer.echo(text, nl=False)
        return
    from unified_profiler.export import writing_to
    from unified_profiler.model.storage import write_text

    with writing_to(out):
        write_text(out, text)
    typer.echo(str(out))
