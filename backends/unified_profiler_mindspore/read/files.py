"""Which files MindSpore's profiler leaves, and where: of one recording on the host, or analyzed of a device."""

from __future__ import annotations

import re
from pathlib import Path

FRAMEWORK = "FRAMEWORK"
"""Directory of what the host's profiler writes."""

LAUNCHES = "cpu_op_execute_timestamp"
SHAPES = "cpu_framework"
MEMORY = "cpu_ms_memory_record"
DETAILS = "cpu_op_detail_info"
GRAPH = "unified_profiler_graph"
"""Beginning of the names of files with the graphs that ran, which a recorder of this package leaves."""

LEFT_OUT = {
    "cpu_op_type_info": "sums over the events",
    "cpu_op_detail_info": "sums over the events; only the process id is taken from it",
}
"""Files of the host's profiler that are not read, and why."""

_READ = (LAUNCHES, SHAPES, MEMORY)
_NUMBERED = re.compile(r"_(\d{1,9})\.(?:txt|csv)$")


def framework_files(folder: Path) -> dict[str, Path]:
    """Return the files of a FRAMEWORK directory that are read, by what they hold."""
    found = {stem: sorted(folder.glob(f"{stem}_*.txt")) for stem in _READ}
    return {stem: paths[0] for stem, paths in found.items() if paths}


def graph_files(folder: Path) -> list[Path]:
    """Return the files with graphs."""
    return sorted(folder.glob(f"{GRAPH}_*.pb"))


def rank_of(path: Path) -> int | None:
    """Return the rank, which MindSpore puts into the names of its files."""
    found = _NUMBERED.search(path.name)
    return int(found[1]) if found else None
