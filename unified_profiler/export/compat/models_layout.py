"""Writes runs of any framework in the directory layout of the TensorFlow Models Profiler.

`timeline/<model>_step_<n>` is Chrome JSON; `step_stats/<model>_step_<n>` has the framework's own statistics if they
were kept, else JSON lines with one object per event; `summary.json` has the duration of each activity and node by step,
and `summary.md` the same as Markdown.
"""

from __future__ import annotations

import itertools
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from unified_profiler.delivery.run_writer import check_output_dir
from unified_profiler.engine import Source
from unified_profiler.errors import ExportError, OutputDirectoryError
from unified_profiler.export.compat.models_files import STEP_STATS, TIMELINE, write_file, write_step_files
from unified_profiler.export.compat.models_json import op_stats_json
from unified_profiler.export.compat.models_native import native_statistics
from unified_profiler.export.compat.models_stats import AppStats, OpStats, app_stats, op_stats
from unified_profiler.export.compat.models_steps import ModelStep, RecordedStep, model_steps, recorded_steps
from unified_profiler.export.compat.models_summary import summary_text
from unified_profiler.export.writing import writing_to
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.run import Run
from unified_profiler.model.storage import write_text
from unified_profiler.report.summary import name_of

SUMMARY = "summary.json"
SUMMARY_TEXT = "summary.md"

_OPENINGS = {TIMELINE: b'{"unified_profiler":', STEP_STATS: b'{"id":', SUMMARY: b'{"app_stats":'}
"""First bytes of the files of this layout, except for statistics that a framework recorded itself."""
_NOT_IN_NAMES = re.compile(r"[^\w.+@-]")
_LONGEST_STEM = 150  # bytes of UTF-8; file names may have 255, and temporary ones are longer


@checked_keywords
def write_models_layout(source: Source, folder: str | os.PathLike[str]) -> Path:
    """Write a trace or a run in the directory layout of the TensorFlow Models Profiler.

    A model is a named graph, or else a framework; in a run of several ranks its name ends with the rank. A trace
    without steps is written as step 0; otherwise events outside of steps are left out, and `summary.md` states their
    number.

    If the run has kept TensorFlow's RunMetadata (sessions recorded with `keep_native=True`), the files in `step_stats`
    contain the text of TensorFlow's StepStats. Otherwise, or if the RunMetadata of a step is damaged, for which a
    warning is logged, they contain the events of the step.

    Args:
        source: A Trace or a Run of any framework.
        folder: The directory, created if missing. An earlier layout of this kind in it is replaced.

    Returns:
        The directory.

    Raises:
        ExportError: The run contains no events, or a file cannot be written.
        OutputDirectoryError: The directory contains other files, or is a file, or cannot be written to.
    """
    folder, run = Path(folder), Run.of(source)
    check_output_dir(folder, option="folder")
    with_rank = len(run.ranks) > 1
    steps = recorded_steps(run)
    if not steps:
        msg = f"{run!r} contains no events, so there is nothing to write to {folder}. Record at least one step first."
        raise ExportError(msg)
    parts = model_steps(steps, with_rank=with_rank)
    files = _file_names(parts)
    app, ops = app_stats(steps, with_rank=with_rank), op_stats(parts)
    native = {columns: native_statistics(columns) for columns in dict.fromkeys(step.columns for step in steps)}
    text = summary_text(name_of(run) or "unified_profiler", app, ops, files=files, outside_count=_count_outside(steps))
    with writing_to(folder):
        _check_contents(folder)
        _write_summary(folder, app, ops, text)
        write_step_files(parts, native, folder, files)
        _remove_others(folder, set(files.values()))
    return folder


def _check_contents(folder: Path) -> None:
    """Refuse to overwrite files other than those of this layout, which is recognized by its summary."""
    paths = folder.iterdir() if folder.is_dir() else ()
    existing = {path.name for path in paths if not (path.name.startswith(".") and path.name.endswith(".part"))}
    foreign = existing - {TIMELINE, STEP_STATS, SUMMARY, SUMMARY_TEXT}
    if existing and (foreign or not _starts_with(folder / SUMMARY, _OPENINGS[SUMMARY])):
        names = ", ".join(sorted(foreign or existing)[:5])
        msg = (
            f"{folder} contains {names}, which is not part of an earlier report of this kind, so nothing was written. "
            "Choose a directory that is new or empty."
        )
        raise OutputDirectoryError(msg)


def _starts_with(path: Path, opening: bytes) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(opening)) == opening


def _count_outside(steps: Sequence[RecordedStep]) -> int:
    """Return the number of events outside of steps."""
    recorded = sum(len(columns.events) for columns in {step.columns for step in steps})
    return recorded - sum(len(step.rows) for step in steps)


def _write_summary(folder: Path, app: AppStats, ops: OpStats, text: str) -> None:
    for name in (TIMELINE, STEP_STATS):
        (folder / name).mkdir(parents=True, exist_ok=True)
    opening = b'{"app_stats":%b,"op_stats":' % msgspec.json.encode(app)
    write_file(folder / SUMMARY, itertools.chain([opening], op_stats_json(ops), [b"}\n"]))
    write_text(folder / SUMMARY_TEXT, text)


def _file_names(parts: Sequence[ModelStep]) -> dict[tuple[str, str], str]:
    """Return file names by model and step that are valid on every file system and differ not only by case."""
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
    yield from (f"{clean}-{number}" for number in itertools.count(2))


def _remove_others(folder: Path, names: set[str]) -> None:
    """Remove the steps of an earlier layout that this one does not have.

    Statistics in the framework's own format are recognized by the timeline of the same name.
    """
    for kind in (STEP_STATS, TIMELINE):
        for path in sorted((folder / kind).iterdir()):
            timeline = folder / TIMELINE / path.name
            ours = _starts_with(path, _OPENINGS[kind]) or _starts_with(timeline, _OPENINGS[TIMELINE])
            if path.name not in names and "_step_" in path.name and ours:
                path.unlink()
