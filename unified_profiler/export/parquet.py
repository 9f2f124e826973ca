"""Traces as Parquet, the form in which runs keep them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unified_profiler.errors import ExportError
from unified_profiler.model.storage import write_parquet
from unified_profiler.model.trace import Trace


class ParquetExporter:
    """Writes one trace with its info inside; `read` gives the same trace back."""

    def write(self, traces: Sequence[Trace], path: Path) -> None:
        """Write the trace.

        Raises:
            ExportError: There are several traces; a file of this format holds one.
        """
        if len(traces) != 1:
            msg = f"A .parquet file holds one trace, but there are {len(traces)}. Write each of `run.traces` by itself."
            raise ExportError(msg)
        write_parquet(traces[0], path)
