"""Writes traces in the Chrome trace event format (object form) for the Perfetto UI and chrome://tracing."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from unified_profiler.export.background import write_blocks
from unified_profiler.export.chrome_documents import Document, chrome_documents
from unified_profiler.export.overlays import Overlay
from unified_profiler.model.part_files import atomic_write
from unified_profiler.model.trace import Trace


class ChromeExporter:
    """Writes traces as Chrome JSON. Several traces share one time axis; each rank is a process of its own.

    Args:
        compressed: Whether to write gzip.
        arrows: Whether to draw arrows from launches to kernels and from forward operators to their backward.
        overlays: Spans to show above the events, such as a critical path. `read` leaves them out.
    """

    def __init__(self, *, compressed: bool = False, arrows: bool = True, overlays: Sequence[Overlay] = ()) -> None:
        self._compressed = compressed
        self._arrows = arrows
        self._overlays = tuple(overlays)

    def write(self, traces: Sequence[Trace], path: Path) -> None:
        """Write the traces, atomically by a temporary file."""
        tables = [trace.events.replace_schema_metadata(None) for trace in traces]
        document = Document([trace.info for trace in traces], [len(table) for table in tables], self._overlays)
        events = pa.concat_tables(tables).unify_dictionaries()
        (blocks,) = chrome_documents(events, [document], arrows=self._arrows)
        with atomic_write(path) as part, part.open("wb") as plain:
            if not self._compressed:
                write_blocks(blocks, plain.write)
                return
            # No time stamp, so the same trace gives the same bytes. Higher levels save a fifth and take twice the time.
            with gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=plain, mtime=0) as packed:
                write_blocks(blocks, packed.write)
