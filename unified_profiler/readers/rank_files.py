"""Reads a directory of native traces, one or several per rank, as one run.

The rank of a trace is the recorded one, else the number after `rank` in its name, else its position among the other
names. Several traces of one rank are its cycles, in the order in which they began.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.run import Run, sorted_traces
from unified_profiler.readers.native import NativeTrace, recognized_by

logger = logging.getLogger("unified_profiler")

_RANK = re.compile(r"(?<![a-z])rank[-_. ]?(\d{1,9})(?!\d)", re.IGNORECASE)
_TORCH_CYCLE = re.compile(r"\.\d+\.pt\.trace\.json(\.gz)?$")
"""End of the names that torch's `tensorboard_trace_handler` gives to the cycles of a process: the time of writing."""
_DIGITS = re.compile(r"(\d+)")


def read_rank_files(path: Path) -> Run | None:
    """Read a directory of native traces; return None if it contains none.

    Files and directories that no backend recognizes are ignored, and named in the log.

    Raises:
        TraceFormatError: One of the traces is damaged, or they are of different jobs.
    """
    entries = sorted(path.iterdir(), key=lambda entry: _natural(entry.name))
    backends = {entry: recognized_by(entry) for entry in entries}
    native = [NativeTrace.read(entry, backend) for entry, backend in backends.items() if backend is not None]
    if not native:
        return None
    if ignored := [entry.name for entry, backend in backends.items() if backend is None]:
        logger.warning("Reading the traces in %s: ignored %s, which no backend recognizes.", path, ", ".join(ignored))
    _check_job(path, native)
    ranks = _ranks(native)
    world_size = max(ranks.values()) + 1
    traces = []
    for rank in sorted(set(ranks.values())):
        cycles = sorted((trace for trace in native if ranks[trace.path] == rank), key=lambda trace: trace.start_ns)
        traces += [t.trace(rank=rank, cycle=cycle, world_size=world_size) for cycle, t in enumerate(cycles)]
    return Run(traces=sorted_traces(traces))


def _check_job(path: Path, native: Sequence[NativeTrace]) -> None:
    sizes: dict[int, list[str]] = defaultdict(list)
    for trace in native:
        if trace.world_size is not None:
            sizes[trace.world_size].append(trace.path.name)
    if len(sizes) > 1:
        jobs = "; ".join(f"{size} ranks in {', '.join(names[:3])}" for size, names in sorted(sizes.items()))
        msg = (
            f"The traces in {path} are of different jobs: {jobs}. Read them one by one, or each job from its directory."
        )
        raise TraceFormatError(msg)


def _ranks(native: Sequence[NativeTrace]) -> Mapping[Path, int]:
    """Return the rank of each trace.

    Traces without a recorded rank and without one in their name get the lowest numbers that are left, in the order of
    their names, in which numbers count by value. The cycles that torch writes for one process have the same rank.
    """
    ranks = {trace.path: rank for trace in native if (rank := _known_rank(trace)) is not None}
    free = iter(number for number in range(len(native) + len(ranks)) if number not in set(ranks.values()))
    by_process: dict[str, int] = {}
    for path in (trace.path for trace in native if trace.path not in ranks):
        process = _TORCH_CYCLE.sub("", path.name)
        if process not in by_process:
            by_process[process] = next(free)
        ranks[path] = by_process[process]
    return ranks


def _known_rank(trace: NativeTrace) -> int | None:
    if trace.rank is not None:
        return trace.rank
    match = _RANK.search(trace.path.name)
    return int(match.group(1)) if match else None


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key in which the numbers in a name count by value."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(name) if part]
