"""Reads the step statistics that a framework recorded itself from the native files kept in a run."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from unified_profiler import registry
from unified_profiler.errors import TraceFormatError
from unified_profiler.export.compat.models_steps import ModelStep, TraceColumns
from unified_profiler.model.foreign import inside, reading
from unified_profiler.model.part_files import atomic_write
from unified_profiler.model.run import NATIVE
from unified_profiler.spi import StepStatistics

logger = logging.getLogger("unified_profiler")

NativeStatistics: TypeAlias = Mapping[tuple[int, str], Sequence[StepStatistics]]
"""The graph runs of each step, by step number and name of the graph (or else of the framework)."""


def native_statistics(columns: TraceColumns) -> NativeStatistics:
    """Return the statistics in the native files of a trace; a warning is logged for files that cannot be read."""
    statistics: defaultdict[tuple[int, str], list[StepStatistics]] = defaultdict(list)
    file = columns.trace.file
    kept = file.parent / NATIVE / file.stem if isinstance(file, Path) else None
    if kept is None or not kept.is_dir():
        return statistics
    for name, backend in registry.backends().items():
        step_statistics = backend.abilities.step_statistics
        if step_statistics is None or not (kept / name).is_dir():
            continue
        try:
            with reading(kept / name, expected=f"native files of {name}"):
                runs = tuple(step_statistics(inside(kept.parents[1], kept / name)))
        except TraceFormatError as error:
            logger.warning("%s The statistics of its steps are written as events instead.", error)
            continue
        for run in runs:
            step = run.step if columns.has_steps else 0
            if step is not None:
                statistics[step, run.graph or backend.name].append(run)
    return statistics


def write_native_statistics(part: ModelStep, statistics: NativeStatistics, path: Path) -> bool:
    """Write the framework's own statistics of a step to a file.

    Returns:
        Whether there are any and they were written; if they are damaged, a warning is logged.
    """
    runs = statistics.get((part.step.number, part.graph))
    if not runs:
        return False
    try:
        with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
            for run in runs:
                file.write(run.text())
    except TraceFormatError as error:
        logger.warning("%s Step %s of %s is written as events instead.", error, part.step.label, part.model)
        return False
    return True
