"""Traces as Parquet files: written whole or not at all, readable alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from unified_profiler.errors import SchemaVersionError, TraceFormatError
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import EVENT_SCHEMA, SCHEMA_VERSION, EventTable, schema_of
from unified_profiler.model.trace import Trace

_INFO_KEY = b"unified_profiler"
_DELTA = ("id", "parent_id", "start_ns", "duration_ns", "self_ns", "correlation_id", "sequence_id")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`, renamed to it at the end and removed if anything fails."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")


def write_parquet(trace: Trace, path: Path) -> None:
    """Write a trace with its info inside, under a temporary name first."""
    info = trace.info.model_dump_json().encode()
    table = trace.events.replace_schema_metadata({_INFO_KEY: info})
    dictionary = [name for name in EVENT_SCHEMA.names if name not in _DELTA]
    with written_whole(path) as part:
        pq.write_table(
            table,
            part,
            compression="zstd",
            use_dictionary=dictionary,
            column_encoding=dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
        )


def read_parquet(path: Path) -> Trace:
    """Read what `write_parquet` wrote; the events only when they are asked for.

    Raises:
        TraceFormatError: Not a trace of this package, or damaged.
        SchemaVersionError: Written by a newer version.
    """
    found = _guarded(path, lambda: pq.read_schema(path))
    metadata = found.metadata or {}
    if _INFO_KEY not in metadata:
        msg = f"{path} is a Parquet file, but not one written by unified_profiler: it holds no trace info."
        raise TraceFormatError(msg)
    info = parse_record(path, metadata[_INFO_KEY], TraceInfo)
    missing = [name for name in EVENT_SCHEMA.names if name not in found.names]
    if missing:
        msg = f"{path} lacks the columns {missing}; expected the event schema, version {SCHEMA_VERSION}."
        raise TraceFormatError(msg)
    return Trace(lambda columns: _read_events(path, columns), info, file=path)


def parse_record(path: Path | str, text: bytes | str, record: type[Any]) -> Any:
    """Parse a record of this package and check that this version can read it."""
    try:
        found = record.model_validate_json(text)
    except ValidationError as error:
        msg = f"{path} is damaged: {error.error_count()} fields of its {record.__name__} are wrong.\n{error}"
        raise TraceFormatError(msg) from error
    if found.schema_version > SCHEMA_VERSION:
        msg = (
            f"{path} has schema version {found.schema_version}; this unified_profiler reads up to {SCHEMA_VERSION}. "
            "Upgrade it with: pip install --upgrade unified-profiler"
        )
        raise SchemaVersionError(msg)
    return found


def _read_events(path: Path, columns: Sequence[str]) -> EventTable:
    schema = schema_of(columns)
    texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    table = _guarded(path, lambda: pq.read_table(path, columns=schema.names, read_dictionary=texts, memory_map=False))
    return table.cast(schema).replace_schema_metadata(None)


def _guarded(path: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (pa.ArrowException, OSError) as error:
        msg = f"{path} cannot be read as Parquet: {error}"
        raise TraceFormatError(msg) from error
