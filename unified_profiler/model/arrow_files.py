"""Tables from Arrow and Parquet files that anybody may have written: checked in full before they are used.

Arrow trusts what it reads. An index outside its dictionary, a length that is wrong or text that is no UTF-8 ends the
process later, in code that has nothing to do with the file. So every table is validated here, also where Arrow's own
validation does not look: under nulls.
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
"""Numbers of fields in Arrow's flatbuffers: of Message, RecordBatch and DictionaryBatch."""


def write_stream(table: pa.Table, path: Path) -> None:
    """Write a table as an uncompressed Arrow stream: its size is what it takes in memory."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.unify_dictionaries())


def read_stream(path: Path | str, content: bytes, schema: pa.Schema, *, rows: int | None = None) -> pa.Table:
    """Read an uncompressed Arrow stream.

    Args:
        path: The file, for messages.
        content: What it holds.
        schema: The columns that it must have.
        rows: How many rows were written for certain. A stream that others may still be writing, or that its process
            did not come to finish, may end within a batch; what follows these rows is then left out. None for a stream
            that must be whole.

    Raises:
        TraceFormatError: It is damaged, compressed, has other columns, or fewer rows.
    """
    with reading(path, expected="an uncompressed Arrow stream that unified_profiler wrote"):
        whole = _whole_messages(content, cut_off=rows is not None)
        if not whole.size and rows == 0:
            return schema.empty_table()
        with pa.ipc.open_stream(whole) as stream:
            if not stream.schema.equals(schema):
                msg = f"its columns are {stream.schema.names}, expected {schema.names} in the types of this version"
                raise ValueError(msg)
            table = checked(stream.read_all())
    if rows is not None and len(table) < rows:
        msg = f"{path} holds {len(table)} rows, expected at least {rows}: it is damaged or cut off."
        raise TraceFormatError(msg)
    return table


def checked(table: pa.Table) -> pa.Table:
    """Validate a table in full, and put an index of its dictionary under every null.

    Raises:
        pa.ArrowInvalid: A value lies outside its buffer or dictionary, or a text is no UTF-8.
    """
    table.validate(full=True)
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) and table.column(place).null_count:
            chunks = [_null_slots_in_range(chunk) for chunk in table.column(place).chunks]
            table = table.set_column(place, field, pa.chunked_array(chunks, field.type))
    return table


def _null_slots_in_range(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    return dictionary_array(chunk.indices.fill_null(-1).to_numpy(), chunk.dictionary)


def _whole_messages(content: bytes, *, cut_off: bool) -> pa.Buffer:
    """Return the messages of a stream up to where it is cut off, after a look at each: none may be compressed."""
    source = pa.BufferReader(content)
    end = 0
    for message in _messages(source, cut_off=cut_off):
        if message.type in {"record batch", "dictionary"} and _is_compressed(message):
            msg = "a batch of it is compressed"
            raise ValueError(msg)
        end = source.tell()
    return pa.py_buffer(content)[:end]


def _messages(source: pa.BufferReader, *, cut_off: bool) -> Iterator[pa.ipc.Message]:
    while True:
        try:
            message = pa.ipc.read_message(source)
        except EOFError:
            return
        except (pa.ArrowInvalid, OSError):
            if cut_off and source.tell():
                return
            raise
        yield message


def _is_compressed(message: pa.ipc.Message) -> bool:
    """Look into the flatbuffer of a batch: compressed buffers declare a size that Arrow allocates without a check."""
    data = bytes(message.metadata)
    batch = _field(data, struct.unpack_from("<I", data)[0], _HEADER)
    if batch is not None and message.type == "dictionary":
        batch = _field(data, batch, _DICTIONARY_DATA)
    return batch is None or _field(data, batch, _COMPRESSION) is not None


def _field(data: bytes, table: int, number: int) -> int | None:
    """Return where the table is that a field of a flatbuffer table refers to; None if the field is absent."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    entry = 4 + 2 * number
    if entry >= struct.unpack_from("<H", data, vtable)[0]:
        return None
    offset = struct.unpack_from("<H", data, vtable + entry)[0]
    return None if not offset else table + offset + int(struct.unpack_from("<I", data, table + offset)[0])
