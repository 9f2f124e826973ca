"""`write`: writes a file for other programs or for people, in the format that the suffix of its path names."""

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


REPORTS = (".html", ".md")
"""Suffixes of documents for people."""


@checked_keywords
def write(trace: Source, path: str | os.PathLike[str]) -> Path:
    """Write a trace or a run to a file whose suffix says the format.

    `.json` and `.json.gz` are for the Perfetto UI and chrome://tracing, `.parquet` for this package and data frames,
    `.csv` for everything else, `.html` and `.md` for people. Missing parent directories are made; an existing file is
    replaced only by a whole one.

    Args:
        trace: A trace, or a run. A run of several traces fits all but `.parquet`.
        path: Where to write.

    Returns:
        The path.

    Raises:
        ConfigurationError: The suffix names no format.
        ExportError: The file cannot be written, or the run has no trace, or more than the format can hold.
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
    if suffix == ".html":
        from unified_profiler.report.page import write_page

        write_page(source, target)
    else:
        from unified_profiler.report.markdown import write_markdown

        write_markdown(source, target)


def _traces_of(source: Source, target: Path) -> Sequence[Trace]:
    traces = tuple(source.traces) if isinstance(source, Run) else (source,)
    if not traces:
        msg = f"{source!r} holds no trace, so there is nothing to write to {target}. Record at least one cycle first."
        raise ExportError(msg)
    return traces


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
