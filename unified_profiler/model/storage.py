"""Traces as Parquet files and records as JSON: written whole or not at all, checked when they are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from unified_profiler.errors import SchemaVersionError, TraceFormatError
from unified_profiler.model.arrow_files import checked
from unified_profiler.model.foreign import check_regular, check_size, read_bytes, reading
from unified_profiler.model.part_files import written_whole
from unified_profiler.model.records import Record, TraceInfo
from unified_profiler.model.schema import EVENT_SCHEMA, SCHEMA_VERSION, EventTable, schema_of
from unified_profiler.model.trace import Trace

_INFO_KEY = b"unified_profiler"
_DELTA = ("id", "parent_id", "start_ns", "duration_ns", "self_ns", "correlation_id", "sequence_id")
_PARQUET = "a Parquet file that unified_profiler wrote"
_Record = TypeVar("_Record", bound=Record)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")


def write_parquet(trace: Trace, path: Path, *, replace: bool = True) -> None:
    """Write a trace with its info inside, under a temporary name first.

    Args:
        trace: The trace.
        path: The file.
        replace: Whether a file of that name is replaced; if not, it stays.

    Raises:
        FileExistsError: There is a file of that name, which is not to be replaced.
    """
    info = trace.info.model_dump_json().encode()
    table = trace.events.replace_schema_metadata({_INFO_KEY: info})
    dictionary = [name for name in EVENT_SCHEMA.names if name not in _DELTA]
    with written_whole(path, replace=replace) as part:
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
    check_regular(path)
    with reading(path, expected=_PARQUET):
        schema = pq.read_schema(path)
    metadata = schema.metadata or {}
    if _INFO_KEY not in metadata:
        msg = f"{path} is a Parquet file, but not one written by unified_profiler: it holds no trace info."
        raise TraceFormatError(msg)
    info = parse_record(path, metadata[_INFO_KEY], TraceInfo)
    missing = [name for name in EVENT_SCHEMA.names if name not in schema.names]
    if missing:
        msg = f"{path} lacks the columns {missing}; expected the event schema, version {SCHEMA_VERSION}."
        raise TraceFormatError(msg)
    return Trace(lambda columns: _read_events(path, columns), info, file=path)


def read_record(path: Path, record: type[_Record]) -> _Record:
    """Read a JSON file that holds one record.

    Raises:
        TraceFormatError: It cannot be read, or is damaged.
        SchemaVersionError: Written by a newer version.
    """
    return parse_record(path, read_bytes(path), record)


def parse_record(path: Path | str, text: bytes | str, record: type[_Record]) -> _Record:
    """Parse a record of this package and check that this version can read it."""
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
    with reading(path, expected=_PARQUET), pq.ParquetFile(path, read_dictionary=_texts(schema)) as file:
        check_size(path, file.metadata.num_rows * sum(map(_width, schema.types)))
        table = checked(file.read(columns=schema.names).select(schema.names))
        return table.cast(schema).replace_schema_metadata(None)


def _texts(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if pa.types.is_dictionary(field.type)]


def _width(kind: Any) -> int:
    """Return how many bytes a value takes in memory; of a text, its index."""
    return int((kind.index_type if pa.types.is_dictionary(kind) else kind).bit_width // 8)
