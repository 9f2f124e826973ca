"""Choosing the exporter by the suffix of the path. What the files look like is known to the exporters only."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    """Write a trace, or a run of several where the format holds them, to a file whose suffix says the format.

    Raises:
        ConfigurationError: No exporter has that suffix.
        ExportError: The file cannot be written, or the run has no trace, or more than the format can hold.
    """
    target = Path(path)
    exporter = EXPORTERS[suffix_of(target, EXPORTERS)]()
    traces = tuple(trace.traces) if isinstance(trace, Run) else (trace,)
    if not traces:
        msg = f"{trace!r} holds no trace, so there is nothing to write to {target}. Record at least one cycle first."
        raise ExportError(msg)
    with writing_to(target):
        exporter.write(traces, target)
    return target


def suffix_of(path: Path, suffixes: Collection[str]) -> str:
    """Return the longest of the suffixes that a path has.

    Raises:
        ConfigurationError: It has none of them.
    """
    name = path.name.lower()
    matching = [suffix for suffix in suffixes if name.endswith(suffix)]
    if not matching:
        found = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        msg = f"{path} has {found}, which names no format. Use one of: {', '.join(suffixes)}."
        raise ConfigurationError(msg)
    return max(matching, key=len)


@contextmanager
def writing_to(target: Path) -> Iterator[None]:
    """Make the directories above a file that is about to be written.

    Raises:
        ExportError: They, or the file, cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        msg = f"{target} cannot be written: {error}. Choose another path or make room there."
        raise ExportError(msg) from error
