"""Writes the files of each step of the models layout: a timeline, and statistics as one JSON line per event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from unified_profiler.export.background import write_blocks
from unified_profiler.export.chrome_documents import Document, chrome_documents
from unified_profiler.export.compat.models_native import NativeStatistics, write_native_statistics
from unified_profiler.export.compat.models_steps import ModelStep, TraceColumns
from unified_profiler.export.fragments import constant, member, whole
from unified_profiler.export.row_text import RowText, joined
from unified_profiler.model.columns import look_up
from unified_profiler.model.nesting import Ints, whole_numbers, with_column
from unified_profiler.model.part_files import atomic_write
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable

TIMELINE = "timeline"
STEP_STATS = "step_stats"

_ROWS_PER_BATCH = 1 << 17
"""Steps are prepared together up to that many events, since preparing few costs nearly as much as many."""


def write_step_files(
    parts: Iterable[ModelStep],
    native: Mapping[TraceColumns, NativeStatistics],
    folder: Path,
    names: Mapping[tuple[str, str], str],
) -> None:
    """Write the timeline and the statistics of each model in each step.

    Args:
        parts: The models in the steps; those of a trace follow one another.
        native: Statistics of frameworks, which are written instead of the events.
        folder: The directory of the layout.
        names: File names by model and step.
    """
    write_blocks(_files(parts, native, folder, names), lambda file: write_file(*file))


def write_file(path: Path, blocks: Iterable[Any]) -> None:
    """Write blocks of text to a file."""
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.writelines(blocks)


def _files(
    parts: Iterable[ModelStep],
    native: Mapping[TraceColumns, NativeStatistics],
    folder: Path,
    names: Mapping[tuple[str, str], str],
) -> Iterator[tuple[Path, Iterable[Any]]]:
    for columns, of_trace in groupby(parts, key=lambda part: part.step.columns):
        line = _line(columns.events)
        for batch in _batches(of_trace):
            rows = [np.sort(part.rows) for part in batch]
            lines = line.parts_of(np.concatenate(rows), [len(own) for own in rows])
            for part, own_lines, timeline in zip(batch, lines, _timelines(columns, rows), strict=True):
                name = names[part.model, part.step.label]
                if not write_native_statistics(part, native[columns], folder / STEP_STATS / name):
                    yield folder / STEP_STATS / name, own_lines
                yield folder / TIMELINE / name, timeline


def _batches(parts: Iterable[ModelStep]) -> Iterator[list[ModelStep]]:
    batch: list[ModelStep] = []
    size = 0
    for part in parts:
        batch.append(part)
        size += len(part.rows)
        if size >= _ROWS_PER_BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _line(events: EventTable) -> RowText:
    """Write the columns of each event that are not null as a JSON line."""
    used = [name for name in EVENT_SCHEMA.names if name != "id" and events.column(name).null_count < len(events)]
    ids = whole(whole_numbers(events.column("id")))
    return joined([constant('{"id":'), ids, *(member(events, name) for name in used), constant("}\n")])


def _timelines(columns: TraceColumns, rows: Sequence[Ints]) -> Iterator[Iterable[Any]]:
    """Yield the timeline of each step: a trace with event ids from 0 and no parents outside of the step."""
    events = _taken(columns.events, np.concatenate(rows))
    ids, parents = whole_numbers(events.column("id")), whole_numbers(events.column("parent_id"))
    edges = np.cumsum([0, *map(len, rows)])
    steps = [slice(*edge) for edge in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
    parent = np.concatenate([look_up(parents[step], ids[step]) for step in steps])
    documents = [Document([_step_info(columns, own)], [len(own)]) for own in rows]
    events = with_column(events, "id", np.concatenate([np.arange(len(own)) for own in rows]))
    return chrome_documents(with_column(events, "parent_id", pa.array(parent, mask=parent < 0)), documents)


def _taken(events: EventTable, rows: Ints) -> EventTable:
    if rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return events.slice(int(rows[0]), len(rows))
    return events.take(pa.array(rows))


def _step_info(columns: TraceColumns, rows: Ints) -> TraceInfo:
    start, step = columns.start_ns[rows], int(columns.step[rows].max())
    number = None if step < 0 else step
    return columns.trace.info.model_copy(
        update={
            "event_count": len(rows),
            "first_step": number,
            "last_step": number,
            "start_ns": int(start.min()),
            "end_ns": int((start + columns.duration_ns[rows]).max()),
        }
    )
