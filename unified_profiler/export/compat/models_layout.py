"""The directory that the TensorFlow Models Profiler wrote, for the runs of every framework.

`timeline/<model>_step_<n>` is chrome JSON, `step_stats/<model>_step_<n>` the framework's own statistics where they were
kept, else a JSON object for each event on a line of its own, `summary.json` the duration of each activity and each node
by step, `summary.md` the same for people.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from unified_profiler.delivery.run_writer import check_output_dir
from unified_profiler.engine import Source
from unified_profiler.errors import ExportError, OutputDirectoryError
from unified_profiler.export.chrome import ChromeExporter
from unified_profiler.export.compat.models_native import NativeStatistics, native_statistics, write_native_statistics
from unified_profiler.export.compat.models_stats import AppStats, OpStats, app_stats, op_stats
from unified_profiler.export.compat.models_steps import ModelStep, RecordedStep, model_steps, recorded_steps
from unified_profiler.export.compat.models_summary import summary_text
from unified_profiler.export.fragments import as_buffer, constant, joined, member, whole
from unified_profiler.export.writing import writing_to
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.columns import look_up
from unified_profiler.model.nesting import whole_numbers, with_column
from unified_profiler.model.part_files import atomic_write
from unified_profiler.model.run import Run
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable
from unified_profiler.model.storage import write_text
from unified_profiler.model.trace import Trace
from unified_profiler.report.summary import name_of

TIMELINE = "timeline"
STEP_STATS = "step_stats"
SUMMARY = "summary.json"
SUMMARY_TEXT = "summary.md"

_OPENINGS = {TIMELINE: b'{"unified_profiler":', STEP_STATS: b'{"id":', SUMMARY: b'{"app_stats":'}
"""How the files of this layout begin, but for statistics that a framework itself recorded."""
_NOT_IN_NAMES = re.compile(r"[^\w.+@-]")
_LONGEST_STEM = 150  # bytes of UTF-8; names of files have 255, of which temporary ones need some
_BLOCK = 1 << 16  # rows whose text is in memory at a time


@checked_keywords
def write_models_layout(source: Source, folder: str | os.PathLike[str]) -> Path:
    """Write a trace or a run as the directory that the TensorFlow Models Profiler wrote.

    A model is a named graph, else a framework; where the run has several ranks, its name ends with that of the rank.
    Of a trace without steps everything is step 0; of others, what was recorded outside all steps is left out, which
    `summary.md` tells.

    Where a run keeps TensorFlow's RunMetadata, which is that of sessions recorded with `keep_native=True`, the files in
    `step_stats` hold the text of TensorFlow's StepStats. Else they hold the step's events; so they do, and a warning is
    logged, if the RunMetadata of that step is damaged.

    Args:
        source: A Trace or a Run of any framework.
        folder: The directory, made if it is missing. It may hold an earlier layout of this sort, which is replaced.

    Returns:
        The directory.

    Raises:
        ExportError: The run holds no events, or a file cannot be written.
        OutputDirectoryError: The directory holds something else, or is a file, or cannot be written to.
    """
    folder, run = Path(folder), Run.of(source)
    check_output_dir(folder, option="folder")
    ranks = len(run.ranks) > 1
    steps = recorded_steps(run)
    if not steps:
        msg = f"{run!r} holds no events, so there is nothing to write to {folder}. Record at least one step first."
        raise ExportError(msg)
    parts = model_steps(steps, ranks=ranks)
    files = _file_names(parts)
    app, ops = app_stats(steps, ranks=ranks), op_stats(parts)
    native = {columns: native_statistics(columns) for columns in dict.fromkeys(step.columns for step in steps)}
    text = summary_text(name_of(run) or "unified_profiler", app, ops, files=files, outside_count=_outside(steps))
    with writing_to(folder):
        _check_contents(folder)
        _write_summary(folder, {"app_stats": app, "op_stats": ops}, text)
        for part in parts:
            _write_step(part, native[part.step.columns], folder, files[part.model, part.step.label])
        _remove_others(folder, set(files.values()))
    return folder


def _check_contents(folder: Path) -> None:
    """Let nobody's files be overwritten but those of this layout, whose summary is written first."""
    everything = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    found = {name for name in everything if not (name.startswith(".") and name.endswith(".part"))}
    foreign = found - {TIMELINE, STEP_STATS, SUMMARY, SUMMARY_TEXT}
    if found and (foreign or not _begins(folder / SUMMARY, _OPENINGS[SUMMARY])):
        names = ", ".join(sorted(foreign or found)[:5])
        msg = (
            f"{folder} holds {names}, which is not of an earlier report of this sort, so nothing was written. "
            "Choose a directory that is new or empty."
        )
        raise OutputDirectoryError(msg)


def _begins(path: Path, opening: bytes) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(opening)) == opening


def _outside(steps: Sequence[RecordedStep]) -> int:
    """Count the events that are in no step."""
    recorded = sum(len(columns.events) for columns in {step.columns for step in steps})
    return recorded - sum(len(step.rows) for step in steps)


def _write_summary(folder: Path, summary: Mapping[str, AppStats | OpStats], text: str) -> None:
    for place in (TIMELINE, STEP_STATS):
        (folder / place).mkdir(parents=True, exist_ok=True)
    write_text(folder / SUMMARY, msgspec.json.encode(summary).decode() + "\n")
    write_text(folder / SUMMARY_TEXT, text)


def _write_step(part: ModelStep, native: NativeStatistics, folder: Path, name: str) -> None:
    events = _small(part.step.columns.events.take(pa.array(np.sort(part.rows))))
    if not write_native_statistics(part, native, folder / STEP_STATS / name):
        _write_lines(events, folder / STEP_STATS / name)
    ChromeExporter().write([_step_trace(part.step.columns.trace, events)], folder / TIMELINE / name)


def _small(events: EventTable) -> EventTable:
    """Leave out the texts that no row has: encoding those of all steps for each of them would take long."""
    columns = [
        column.cast(pa.string()).dictionary_encode() if pa.types.is_dictionary(column.type) else column
        for column in events.columns
    ]
    return pa.table(columns, schema=EVENT_SCHEMA).unify_dictionaries().combine_chunks()


def _write_lines(events: EventTable, path: Path) -> None:
    """Write all columns of each event that are not null, as they are in the run."""
    used = [name for name in EVENT_SCHEMA.names if name != "id" and events.column(name).null_count < len(events)]
    ids = whole(whole_numbers(events.column("id")))
    line = joined([constant('{"id":'), ids, *(member(events, name) for name in used), constant("}\n")])
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        for first in range(0, len(events), _BLOCK):
            rows = pa.array(np.arange(first, min(first + _BLOCK, len(events))))
            file.write(as_buffer(line(rows), separator=""))


def _step_trace(trace: Trace, events: EventTable) -> Trace:
    """Return a trace of one step: numbered from 0, and without parents that it does not hold."""
    ids, start = whole_numbers(events.column("id")), whole_numbers(events.column("start_ns"))
    parent = look_up(whole_numbers(events.column("parent_id")), ids)
    steps = whole_numbers(events.column("step"))
    number = int(steps.max())
    info = trace.info.model_copy(
        update={
            "event_count": len(events),
            "first_step": None if number < 0 else number,
            "last_step": None if number < 0 else number,
            "start_ns": int(start.min()),
            "end_ns": int((start + whole_numbers(events.column("duration_ns"))).max()),
        }
    )
    events = with_column(events, "id", np.arange(len(events)))
    return Trace(with_column(events, "parent_id", pa.array(parent, mask=parent < 0)), info)


def _file_names(parts: Sequence[ModelStep]) -> dict[tuple[str, str], str]:
    """Return for each model and step a name that is fit for every file system, and no two that differ by case alone."""
    stems: dict[str, str] = {}
    taken: set[str] = set()
    for model in dict.fromkeys(part.model for part in parts):
        stems[model] = next(stem for stem in _stems(model) if stem.casefold() not in taken)
        taken.add(stems[model].casefold())
    return {(p.model, p.step.label): f"{stems[p.model]}_step_{p.step.label}" for p in parts}


def _stems(model: str) -> Iterator[str]:
    clean = _NOT_IN_NAMES.sub("_", unicodedata.normalize("NFC", model))
    clean = re.sub(r"^[.-]+", "_", clean).encode()[:_LONGEST_STEM].decode(errors="ignore") or "_"
    yield clean
    number = 1
    while number := number + 1:
        yield f"{clean}-{number}"


def _remove_others(folder: Path, names: set[str]) -> None:
    """Remove the steps of an earlier layout that this one does not have.

    Statistics in a form of the framework's own are recognized by the timeline of the same name.
    """
    for place in (STEP_STATS, TIMELINE):
        for path in sorted((folder / place).iterdir()):
            ours = _begins(path, _OPENINGS[place]) or _begins(folder / TIMELINE / path.name, _OPENINGS[TIMELINE])
            if path.name not in names and "_step_" in path.name and ours:
                path.unlink()
