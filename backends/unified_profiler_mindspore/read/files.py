"""Names and locates the files that MindSpore's host profiler and this package's recorder write.

Not read: cpu_op_type_info and cpu_op_detail_info, which are sums over the events; only the process id is taken from the
latter.
"""

from __future__ import annotations

import re
from pathlib import Path

FRAMEWORK = "FRAMEWORK"
"""Directory of the host profiler's files."""

LAUNCHES = "cpu_op_execute_timestamp"
SHAPES = "cpu_framework"
MEMORY = "cpu_ms_memory_record"
DETAILS = "cpu_op_detail_info"
GRAPH = "unified_profiler_graph"
"""Prefix of the files with executed graphs, which this package's recorder writes."""

_RANK = re.compile(r"_(\d{1,9})\.(?:txt|csv)$")


def framework_files(folder: Path) -> dict[str, Path]:
    """Return the files of a FRAMEWORK directory that are read, by the prefix of their names."""
    matches = {prefix: sorted(folder.glob(f"{prefix}_*.txt")) for prefix in (LAUNCHES, SHAPES, MEMORY)}
    return {prefix: paths[0] for prefix, paths in matches.items() if paths}


def graph_files(folder: Path) -> list[Path]:
    """Return the files with graphs."""
    return sorted(folder.glob(f"{GRAPH}_*.pb"))


def rank_of(path: Path) -> int | None:
    """Return the rank, which MindSpore puts into the names of its files."""
    match = _RANK.search(path.name)
    return int(match[1]) if match else None
