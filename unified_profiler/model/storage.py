"""Stores traces as Parquet files and records as JSON: written atomically and validated when read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from unified_profiler.errors import SchemaVersionError, TraceFormatError
from unified_profiler.model.arrow_files import validated
from unified_profiler.model.foreign import check_regular, check_size, read_bytes, reading
from unified_profiler.model.part_files import atomic_write
from unified_profiler.model.records import Record, TraceInfo
from unified_profiler.model.schema import EVENT_SCHEMA, SCHEMA_VERSION, EventTable, schema_of
from unified_profiler.model.trace import Trace

_INFO_KEY = b"unified_profiler"
_DELTA = ("id", "parent_id", "start_ns", "duration_ns", "self_ns", "correlation_id", "sequence_id")
_PARQUET = "a Parquet file that unified_profiler wrote"
_Record = TypeVar("_Record", bound=Record)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")


def write_parquet(trace: Trace, path: Path, *, replace: bool = True) -> None:
    """Write a trace, including its info, atomically.

    Args:
        trace: The trace.
        path: The file.
        replace: Whether an existing file is replaced.

    Raises:
        FileExistsError: The file exists and `replace` is not set.
    """
    info = trace.info.model_dump_json().encode()
    with atomic_write(path, replace=replace) as part:
        pq.write_table(
            trace.events.replace_schema_metadata({_INFO_KEY: info}),
            part,
            compression="zstd",
            use_dictionary=[name for name in EVENT_SCHEMA.names if name not in _DELTA],
            column_encoding=dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
        )


def read_parquet(path: Path) -> Trace:
    """Read a file of `write_parquet`; the events only when they are used.

    Raises:
        TraceFormatError: It is not a trace of this package, or damaged.
        SchemaVersionError: Written by a newer version.
    """
    check_regular(path)
    with reading(path, expected=_PARQUET):
        schema = pq.read_schema(path)
    metadata = schema.metadata or {}
    if _INFO_KEY not in metadata:
        msg = f"{path} is a Parquet file, but not one written by unified_profiler: it contains no trace info."
        raise TraceFormatError(msg)
    info = parse_record(path, metadata[_INFO_KEY], TraceInfo)
    missing = [name for name in EVENT_SCHEMA.names if name not in schema.names]
    if missing:
        msg = f"{path} lacks the columns {missing}; expected the event schema, version {SCHEMA_VERSION}."
        raise TraceFormatError(msg)
    return Trace(lambda columns: _read_events(path, columns), info, file=path)


def read_record(path: Path, record: type[_Record]) -> _Record:
    """Read a JSON file with one record.

    Raises:
        TraceFormatError: It cannot be read, or is damaged.
        SchemaVersionError: Written by a newer version.
    """
    return parse_record(path, read_bytes(path), record)


def parse_record(path: Path | str, text: bytes | str, record: type[_Record]) -> _Record:
    """Parse a record and check that this version can read it."""
    try:
        parsed = record.model_validate_json(text)
    except ValidationError as error:
        msg = f"{path} is damaged: {error.error_count()} fields of its {record.__name__} are wrong.\n{error}"
        raise TraceFormatError(msg) from error
    version = getattr(parsed, "schema_version", 0)
    if version > SCHEMA_VERSION:
        msg = (
            f"{path} has schema version {version}; this unified_profiler reads up to {SCHEMA_VERSION}. "
            "Upgrade it with: pip install --upgrade unified-profiler"
        )
        raise SchemaVersionError(msg)
    return parsed


def _read_events(path: Path, columns: Sequence[str]) -> EventTable:
    schema = schema_of(columns)
    check_regular(path)
    texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    with reading(path, expected=_PARQUET), pq.ParquetFile(path, read_dictionary=texts) as file:
        check_size(path, file.metadata.num_rows * sum(map(_width, schema.types)))
        table = validated(file.read(columns=schema.names).select(schema.names))
        return table.cast(schema).replace_schema_metadata(None)


def _width(dtype: Any) -> int:
    """Return the bytes of a value in memory; for text, those of its dictionary index."""
    return int((dtype.index_type if pa.types.is_dictionary(dtype) else dtype).bit_width // 8)
