"""Choosing the exporter by the suffix of the path. What the files look like is known to the exporters only."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from unified_profiler.errors import ConfigurationError, ExportError
from unified_profiler.export.chrome import ChromeExporter
from unified_profiler.export.parquet import ParquetExporter
from unified_profiler.export.tabular import CsvExporter
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace


class Exporter(Protocol):
    """Writes traces to one file, whole or not at all. Its options are in its constructor."""

    def write(self, traces: Sequence[Trace], path: Path) -> None:
        """Write the traces, one or more, to the path."""
        ...


EXPORTERS: Mapping[str, Callable[[], Exporter]] = MappingProxyType(
    {
        ".json": ChromeExporter,
        ".json.gz": partial(ChromeExporter, compressed=True),
        ".parquet": ParquetExporter,
        ".csv": CsvExporter,
    }
)
"""What makes the exporter of each suffix."""


def write(trace: Trace | Run, path: str | os.PathLike[str]) -> Path:
    """Write a trace to a file whose suffix says the format.

    `.json` and `.json.gz` are for the Perfetto UI and chrome://tracing, `.parquet` for this package and data frames,
    `.csv` for everything else. Missing parent directories are made; an existing file is replaced only by a whole one.

    Args:
        trace: A trace, or a run. A run of several traces fits `.json`, where each rank is a process, and `.csv`.
        path: Where to write.

    Returns:
        The path.

    Raises:
        ConfigurationError: No exporter has that suffix.
        ExportError: The file cannot be written, or the run has no trace, or more than the format can hold.
    """
    target = Path(path)
    exporter = _exporter(target)
    traces = tuple(trace.traces) if isinstance(trace, Run) else (trace,)
    if not traces:
        msg = f"{trace!r} holds no trace, so there is nothing to write to {target}. Record at least one cycle first."
        raise ExportError(msg)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        exporter.write(traces, target)
    except ExportError:
        raise
    except OSError as error:
        msg = f"{target} cannot be written: {error}. Choose another path or make room there."
        raise ExportError(msg) from error
    return target


def _exporter(path: Path) -> Exporter:
    name = path.name.lower()
    suffixes = [suffix for suffix in EXPORTERS if name.endswith(suffix)]
    if not suffixes:
        found = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        msg = f"{path} has {found}, which names no format. Use one of: {', '.join(EXPORTERS)}."
        raise ConfigurationError(msg)
    return EXPORTERS[max(suffixes, key=len)]()
