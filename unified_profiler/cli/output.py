"""Prints results, or writes them to a file: as a table for people, as JSON or CSV for programs."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from enum import Enum
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar

import typer

from unified_profiler.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

    from unified_profiler.analysis import Result
    from unified_profiler.presentation.tables import EmphasisByColumn


class Format(str, Enum):
    """Output format of a result."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class DocumentFormat(str, Enum):
    """Output format of a result that is more than a table."""

    TABLE = "table"
    JSON = "json"


_format: Any = typer.Option("--format", help="Output format.", show_default="by the suffix of -o, else table")
FormatOption = Annotated[Format | None, _format]
DocumentFormatOption = Annotated[DocumentFormat | None, _format]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for --format json.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of printing.")
]

_Form = TypeVar("_Form", bound=Enum)
_SUFFIXES = {"table": ".txt", "junit": ".xml"}
"""Suffixes of files whose format has another name."""

_WORDS = {"category": "category", "direction": "diff.direction", "kind": "kind"}
"""Columns of keys, and the prefix of the words that are printed for them."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Characters that control terminals, which RFC 4180 does not allow in CSV. Tabs and line breaks are allowed."""

MOST_ROWS = 100
"""Default limit for the rows of a table for people."""


def format_of(form: _Form | None, out: Path | None, *, default: _Form, as_json: bool = False) -> _Form:
    """Return the format that was chosen, by name or by the suffix of the output.

    Args:
        form: The format that was given by name.
        out: The output file.
        default: The format if neither chooses one.
        as_json: Whether `--json` was given.

    Raises:
        ConfigurationError: The options contradict each other, or the suffix is that of no format.
    """
    known = {_SUFFIXES.get(each.value, f".{each.value}"): each for each in type(default)}
    if as_json:
        if form not in {None, known[".json"]}:
            msg = f"`--json` and `--format {form and form.value}` cannot be combined: leave one out."
            raise ConfigurationError(msg)
        return known[".json"]
    if form is not None or out is None or not out.suffix:
        return form or default
    if out.suffix.lower() not in known:
        msg = f"`--output` must end in {', '.join(known)}, or give `--format` as well; found {out}."
        raise ConfigurationError(msg)
    return known[out.suffix.lower()]


def show(
    result: Result,
    form: Format,
    *,
    out: Path | None = None,
    most_rows: int | None = MOST_ROWS,
    row_limit: int = 0,
    language: str = "en",
    next_line: str | None = None,
    emphasis: EmphasisByColumn | None = None,
) -> None:
    """Print a result on stdout, or write it to a file.

    Args:
        result: The result.
        form: The format; JSON and CSV contain all values.
        out: The file.
        most_rows: Maximum number of rows of a table for people; None for all.
        row_limit: Maximum number of rows in any format; 0 for all.
        language: The language of the headings of a table for people.
        next_line: A line below a table for people, with the command that shows more.
        emphasis: How the cells of some columns are emphasized in a terminal.
    """
    if form is not Format.TABLE:
        limited = replace(result, table=result.table.slice(0, row_limit or None))
        write_or_print(_as_json(limited) if form is Format.JSON else _as_csv(limited), out)
        return
    result, most_rows = in_language(result, language), row_limit or most_rows
    if next_line is not None:
        result = replace(result, footer=(*result.footer, next_line))
    if out is None:
        show_table(result, most_rows=most_rows, language=language, emphasis=emphasis)
    else:
        write_or_print(_as_text(result, most_rows, language) + "\n", out)


def in_language(result: Result, language: str) -> Result:
    """Return a result with the headings, the lines below and the words of this package in a language."""
    if result.headings is not None:  # the result of a query stays as it is
        result = replace(result, table=_in_words(result.table, language))
    if language == "en":
        return result
    from unified_profiler.presentation.texts import render_statement, texts

    known, headings = texts(language), result.headings
    if headings is not None:
        headings = {name: known.get(f"column.{name}", heading) for name, heading in headings.items()}
    remarks = tuple(render_statement("table", each, language=language) for each in result.remarks)
    return replace(result, headings=headings, footer=remarks or result.footer)


def _in_words(table: pa.Table, language: str) -> pa.Table:
    """Return a table with words instead of keys, and with readable names of threads."""
    from unified_profiler.presentation.texts import texts

    known = texts(language)
    for name, prefix in _WORDS.items():
        if name in table.column_names:
            values = [known.get(f"{prefix}.{value}", value) for value in table.column(name).to_pylist()]
            table = table.set_column(table.column_names.index(name), name, [values])
    return _with_threads(table) if {"thread", "tid"} <= set(table.column_names) else table


def _with_threads(table: pa.Table) -> pa.Table:
    from unified_profiler.analysis.tracks import thread_of

    columns = (table.column(name).to_pylist() for name in ("thread", "tid"))
    threads = [thread_of(*each) for each in zip(*columns, strict=True)]
    for name, values in (("thread", [name for name, _ in threads]), ("tid", [tid for _, tid in threads])):
        table = table.set_column(table.column_names.index(name), name, [values])
    return table


def column_of(heading: str | None, language: str) -> str | None:
    """Return the column that has a heading in a language; anything else as it is, such as a column or torch's key."""
    from unified_profiler.presentation.texts import texts

    columns = (key for key, text in texts(language).items() if key.startswith("column.") and text == heading)
    return next((key.removeprefix("column.") for key in columns), heading)


def _as_text(result: Result, most_rows: int | None, language: str) -> str:
    """Return an aligned table in which nothing is cut."""
    from unified_profiler.presentation.tables import as_text

    parts: dict[str, Any] = {"headings": result.headings, "footer": result.footer, "language": language}
    return as_text(result.table, most_rows=most_rows, widest=None, **parts)


def _as_json(result: Result) -> str:
    names = _unique(result.columns)
    records = [dict(zip(names, map(_json_value, row), strict=True)) for row in result.rows]
    return json.dumps(records, indent=2, default=str, allow_nan=False) + "\n"


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


def _as_csv(result: Result) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    plain = (int, float, Decimal, type(None))
    for row in (result.columns, *result.rows):
        writer.writerow([value if isinstance(value, plain) else _csv_text(str(value)) for value in row])
    return text.getvalue()


def _csv_text(text: str) -> str:
    """Return text that neither a spreadsheet nor a terminal executes: control characters are escaped."""
    from unified_profiler.export.spreadsheets import inert

    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), inert(text))


def show_table(
    result: Result,
    *,
    most_rows: int | None,
    stream: TextIO | None = None,
    language: str = "en",
    emphasis: EmphasisByColumn | None = None,
) -> None:
    """Print a table for people, by default on stdout.

    It fits the terminal; without a terminal nothing is left out, for `grep` and `less -S`. Of a table without rows,
    only the lines below are printed, if there are any.

    Args:
        result: The table, with headings and lines in the language.
        most_rows: Maximum number of rows; None for all.
        stream: Where to print.
        language: The language of the line on rows that are not shown.
        emphasis: How the cells of some columns are emphasized in a terminal.
    """
    from unified_profiler.cli.terminal import console_on, encodable, is_fitted, print_table
    from unified_profiler.presentation.tables import columns_of, one_line, rows_shown

    if not len(result) and result.footer:  # they state why there are no rows
        show_lines(result.footer, stream)
        return
    console = console_on(stream)
    if not is_fitted(console):
        typer.echo(encodable(_as_text(result, most_rows, language), console.encoding), file=stream)
        return
    columns = [
        replace(column, emphasis=(emphasis or {}).get(column.name, ())[:most_rows])
        for column in columns_of(result.table, headings=result.headings, most_rows=most_rows, spread=True)
    ]
    notes, below = rows_shown(result.table, most_rows, language=language), list(map(one_line, result.footer))
    print_table(console, columns, notes=notes, below=below, keep=result.sorted_by, language=language)


def show_lines(lines: Sequence[str], stream: TextIO | None = None) -> None:
    """Print lines of text, by default on stdout, broken between words to fit a terminal."""
    from unified_profiler.cli.terminal import console_on, print_lines

    print_lines(console_on(stream), lines)


def open_page(page: Path, *, language: str) -> None:
    """Open a page in a browser, or print where it is if there is none."""
    import webbrowser

    if not webbrowser.open(page.absolute().as_uri()):
        from unified_profiler.presentation.texts import render_whole

        typer.echo(render_whole("open.no_browser", {"page": page.absolute()}, language=language), err=True)


def near(path: Path, directory: Path) -> Path:
    """Return a path relative to a directory if it is below that, else as it is."""
    return path.relative_to(directory) if path.is_relative_to(directory) else path


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
