"""Writes traces as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from unified_profiler.export.spreadsheets import inert_texts
from unified_profiler.model.part_files import atomic_write
from unified_profiler.model.schema import EventTable
from unified_profiler.model.trace import Trace


class CsvExporter:
    """Writes every column of every event: a header line, UTF-8, quoted text, empty cells for missing values.

    Text that a spreadsheet would treat as a formula, such as names that start with `=`, `+`, `-` or `@`, gets a leading
    apostrophe. All other text and all numbers are written unchanged.
    """

    def write(self, traces: Sequence[Trace], path: Path) -> None:
        """Write the events of all traces, one trace after the other."""
        import pyarrow.csv

        table = pa.concat_tables([_plain(trace.events) for trace in traces])
        with atomic_write(path) as part:
            pyarrow.csv.write_csv(table, part)


def _plain(events: EventTable) -> pa.Table:
    return pa.table({name: inert_texts(events.column(name)) for name in events.column_names})
