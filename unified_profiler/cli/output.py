"""Printing results: as a table for people, as JSON or CSV for programs."""

from __future__ import annotations

import csv
import json
import sys
from enum import Enum
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from unified_profiler.analysis import Result


class Format(Enum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def show(result: Result, form: Format) -> None:
    """Print a result on stdout."""
    if form is Format.JSON:
        records = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
        typer.echo(json.dumps(records, indent=2, default=str))
    elif form is Format.CSV:
        writer = csv.writer(sys.stdout)
        writer.writerow(result.columns)
        writer.writerows(result.rows)
    else:
        typer.echo(str(result))
