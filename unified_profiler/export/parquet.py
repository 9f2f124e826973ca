"""Writes a trace as Parquet, the format in which runs store traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unified_profiler.errors import ExportError
from unified_profiler.model.storage import write_parquet
from unified_profiler.model.trace import Trace


class ParquetExporter:
    """Writes one trace including its info; `read` returns the same trace."""

    def write(self, traces: Sequence[Trace], path: Path) -> None:
        """Write the trace.

        Raises:
            ExportError: There is not exactly one trace.
        """
        if len(traces) != 1:
            msg = f"A .parquet file has one trace, but there are {len(traces)}. Write each of `run.traces` separately."
            raise ExportError(msg)
        write_parquet(traces[0], path)
