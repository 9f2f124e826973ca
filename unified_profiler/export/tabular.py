"""Traces as plain tables of text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from unified_profiler.model.schema import EVENT_SCHEMA
from unified_profiler.model.storage import written_whole
from unified_profiler.model.trace import Trace


class CsvExporter:
    """Writes every column of every event: a header line, UTF-8, text in quotes, nothing where there is no value.

    Values are written unchanged, so that reading gives the same names back. Spreadsheets take text that begins with
    `=`, `+`, `-` or `@` for a formula: import the columns as text there if the names come from somebody else.
    """

    def write(self, traces: Sequence[Trace], path: Path) -> None:
        """Write the events of all traces one below the other."""
        import pyarrow.csv

        table = pa.concat_tables([trace.events.cast(_PLAIN) for trace in traces])
        with written_whole(path) as part:
            pyarrow.csv.write_csv(table, part)


_PLAIN = pa.schema(
    [
        pa.field(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type, field.nullable)
        for field in EVENT_SCHEMA
    ]
)
