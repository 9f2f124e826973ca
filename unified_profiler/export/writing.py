"""`write`: writes a trace or run to a file, in the format given by the suffix of its path."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from unified_profiler.engine import Source
from unified_profiler.errors import ConfigurationError, ExportError
from unified_profiler.export.chrome import ChromeExporter
from unified_profiler.export.parquet import ParquetExporter
from unified_profiler.export.tabular import CsvExporter
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace


class Exporter(Protocol):
    """Writes traces to one file, completely or not at all. Options belong in the constructor."""

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
"""Factory of the exporter for each suffix."""

REPORTS = (".html", ".md")
"""Suffixes of reports."""


@checked_keywords
def write(trace: Source, path: str | os.PathLike[str]) -> Path:
    """Write a trace or a run to a file in the format given by its suffix.

    `.json` and `.json.gz` are for the Perfetto UI and chrome://tracing, `.parquet` for this package and data frames,
    `.csv` for other programs; `.html` and `.md` are reports. Missing parent directories are created; an existing file
    is replaced only by a complete one.

    Args:
        trace: A trace, or a run. A run of several traces can be written in all formats but `.parquet`.
        path: The file to write.

    Returns:
        The path.

    Raises:
        ConfigurationError: The suffix is not that of a format.
        ExportError: The file cannot be written, or the run has no trace, or more than the format supports.
    """
    target = Path(path)
    suffix = suffix_of(target, (*EXPORTERS, *REPORTS))
    with writing_to(target):
        if suffix in REPORTS:
            _write_report(trace, target, suffix)
        else:
            EXPORTERS[suffix]().write(_traces_of(trace, target), target)
    return target


def _write_report(source: Source, target: Path, suffix: str) -> None:
    from unified_profiler.report.page import write_page
    from unified_profiler.report.summary import write_markdown

    (write_page if suffix == ".html" else write_markdown)(source, target)


def _traces_of(source: Source, target: Path) -> Sequence[Trace]:
    traces = tuple(source.traces) if isinstance(source, Run) else (source,)
    if not traces:
        msg = f"{source!r} has no trace, so there is nothing to write to {target}. Record at least one cycle first."
        raise ExportError(msg)
    return traces


def suffix_of(path: Path, suffixes: Collection[str]) -> str:
    """Return the longest of the suffixes that a path ends with.

    Raises:
        ConfigurationError: It ends with none of them.
    """
    name = path.name.lower()
    matching = [suffix for suffix in suffixes if name.endswith(suffix)]
    if not matching:
        suffix = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        msg = f"{path} has {suffix}, so its format is unknown. Use one of: {', '.join(suffixes)}."
        raise ConfigurationError(msg)
    return max(matching, key=len)


@contextmanager
def writing_to(target: Path) -> Iterator[None]:
    """Create the parent directories of a file, and turn OS errors into an ExportError.

    Raises:
        ExportError: The directories or the file cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        msg = f"{target} cannot be written: {error}. Choose another path, or check permissions and free space."
        raise ExportError(msg) from error
