"""Formats the StepStats of recorded session runs as the text that TensorFlow prints, without importing TensorFlow."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
from google.protobuf import text_format

from unified_profiler.model.foreign import inside, read_bytes, reading
from unified_profiler.spi import StepStatistics
from unified_profiler_tensorflow.read.run_metadata.files import INDEX_NAME, RUN_METADATA
from unified_profiler_tensorflow.read.run_metadata.messages import messages
from unified_profiler_tensorflow.read.run_metadata.step_stats import is_step_stats, load


class _Entry(msgspec.Struct):
    """The entry of a run in the index."""

    file: str
    graph: str | None = None
    step: int | None = None


def step_statistics(folder: Path) -> tuple[StepStatistics, ...]:
    """Return the statistics of the runs in the work directory of a recorder, ordered by the end of the run.

    Raises:
        TraceFormatError: The index of the runs is damaged or missing.
    """
    runs = folder / RUN_METADATA
    if not runs.is_dir():
        return ()
    index = inside(folder, runs / INDEX_NAME)
    with reading(index, expected="the index of session runs"):
        entries = msgspec.json.decode(read_bytes(index), type=list[_Entry])
    return tuple(
        StepStatistics(step=entry.step, graph=entry.graph, text=partial(_text, folder, runs / entry.file))
        for entry in entries
    )


def _text(folder: Path, file: Path) -> str:
    """Return the StepStats of a run as `str` of TensorFlow's own message formats it."""
    with reading(file, expected="TensorFlow's RunMetadata"):
        load(inside(folder, file))  # reports what is wrong with a file
        data = read_bytes(file)
        kind = "StepStats" if is_step_stats(data) else "RunMetadata"
        message = messages()[kind].FromString(data)
        text: str = text_format.MessageToString(message if kind == "StepStats" else message.step_stats)
    return text
