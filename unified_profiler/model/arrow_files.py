"""Reads tables from untrusted Arrow and Parquet files and validates them in full before they are used.

Arrow trusts its input: an index outside its dictionary, a wrong length or invalid UTF-8 crashes the process later, in
unrelated code. Values under nulls, which Arrow's own validation skips, are checked too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.columns import dictionary_array
from unified_profiler.model.foreign import reading

_HEADER, _COMPRESSION, _DICTIONARY_DATA = 2, 3, 1
"""Field numbers in Arrow's flatbuffers Message, RecordBatch and DictionaryBatch."""


def write_stream(table: pa.Table, path: Path) -> None:
    """Write a table as an uncompressed Arrow stream, whose size is that of the table in memory."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.unify_dictionaries())


def read_stream(path: Path | str, content: bytes, schema: pa.Schema, *, rows: int | None = None) -> pa.Table:
    """Read an uncompressed Arrow stream.

    Args:
        path: The file, for messages.
        content: Its content.
        schema: The required columns.
        rows: The least number of rows. The stream may then end within a batch, which is ignored, because it is still
            being written or its process was killed. None for a stream that must be complete.

    Raises:
        TraceFormatError: It is damaged, compressed, has other columns, or fewer rows.
    """
    with reading(path, expected="an uncompressed Arrow stream that unified_profiler wrote"):
        messages = _complete_messages(content, may_be_truncated=rows is not None)
        if not messages.size and rows == 0:
            return schema.empty_table()
        with pa.ipc.open_stream(messages) as stream:
            if not stream.schema.equals(schema):
                msg = f"its columns are {stream.schema.names}, expected {schema.names} in the types of this version"
                raise ValueError(msg)
            table = validated(stream.read_all())
    if rows is not None and len(table) < rows:
        msg = f"{path} holds {len(table)} rows, expected at least {rows}: it is damaged or cut off."
        raise TraceFormatError(msg)
    return table


def validated(table: pa.Table) -> pa.Table:
    """Validate a table in full, and store a valid dictionary index under every null.

    Raises:
        pa.ArrowInvalid: A value lies outside its buffer or dictionary, or a text is not valid UTF-8.
    """
    table.validate(full=True)
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) and table.column(index).null_count:
            chunks = table.column(index).chunks
            valid = [dictionary_array(c.indices.fill_null(-1).to_numpy(), c.dictionary) for c in chunks]
            table = table.set_column(index, field, pa.chunked_array(valid, field.type))
    return table


def _complete_messages(content: bytes, *, may_be_truncated: bool) -> pa.Buffer:
    """Return the complete messages of a stream, none of which may be compressed."""
    source = pa.BufferReader(content)
    end = 0
    for message in _messages(source, may_be_truncated=may_be_truncated):
        if message.type in {"record batch", "dictionary"} and _is_compressed(message):
            msg = "a batch of it is compressed"
            raise ValueError(msg)
        end = source.tell()
    return pa.py_buffer(content)[:end]


def _messages(source: pa.BufferReader, *, may_be_truncated: bool) -> Iterator[pa.ipc.Message]:
    while True:
        try:
            yield pa.ipc.read_message(source)
        except EOFError:
            return
        except (pa.ArrowInvalid, OSError):
            if may_be_truncated and source.tell():
                return
            raise


def _is_compressed(message: pa.ipc.Message) -> bool:
    """Inspect the flatbuffer of a batch: compressed buffers declare a size that Arrow allocates unchecked."""
    data = bytes(message.metadata)
    batch = _field(data, struct.unpack_from("<I", data)[0], _HEADER)
    if batch is not None and message.type == "dictionary":
        batch = _field(data, batch, _DICTIONARY_DATA)
    return batch is None or _field(data, batch, _COMPRESSION) is not None


def _field(data: bytes, table: int, number: int) -> int | None:
    """Return the offset of the table that a field of a flatbuffer table refers to; None if the field is absent."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    entry = 4 + 2 * number
    if entry >= struct.unpack_from("<H", data, vtable)[0]:
        return None
    offset = struct.unpack_from("<H", data, vtable + entry)[0]
    return None if not offset else table + offset + int(struct.unpack_from("<I", data, table + offset)[0])
