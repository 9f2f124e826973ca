"""`write`: a file for other programs or for people, by the suffix of its path."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from unified_profiler.engine import Source
from unified_profiler.export import EXPORTERS, suffix_of, writing_to
from unified_profiler.export import write as export
from unified_profiler.keywords import checked_keywords
from unified_profiler.report.markdown import write_markdown
from unified_profiler.report.page import write_page

REPORTS: Mapping[str, Callable[[Source, Path], None]] = MappingProxyType({".html": write_page, ".md": write_markdown})
"""What writes the reports of each suffix."""


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
    if suffix not in REPORTS:
        return export(trace, target)
    with writing_to(target):
        REPORTS[suffix](trace, target)
    return target
