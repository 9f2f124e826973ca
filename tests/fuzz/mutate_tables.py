"""Mutations of Arrow and Parquet files: raw values in buffers, lengths in metadata, other columns and types.

Nothing here works on a damaged table: that could end the process. A table is read only as it is in the seed; damage
is done to the bytes that are written of it.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.mutate_text import mutate_bytes, mutate_json

_INT32 = (-1, 1, 7, 100, 1 << 20, (1 << 31) - 1, -(1 << 31))
_INT64 = (-1, 0, 1, 5, 1 << 31, 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63))
_TEXT = ("", "x", "\0", "step", "counter", "{", '{"a":', "[[[", "\U0001f389", "x" * 70_000)
_INFO = b"unified_profiler"


def mutate_arrow(rng: Random, data: bytes) -> bytes:
    """Mutate an Arrow stream or file that is in order."""
    table = _read_arrow(data)
    if table is None or rng.random() < 0.2:
        return mutate_bytes(rng, data)
    if rng.random() < 0.4:
        return _written(rng, _changed(rng, table), options=rng.random() < 0.3)
    plain = _written(rng, table, options=False)
    return rng.choice((_poke_buffer, _poke_buffer, _poke_length, _poke_start))(rng, plain, table)


def mutate_parquet(rng: Random, data: bytes) -> bytes:
    """Mutate a Parquet file that is in order."""
    choice = rng.random()
    if choice < 0.25:
        return mutate_bytes(rng, data)
    if choice < 0.5:  # at its end is what all the rest is found by
        size = min(len(data), struct.unpack("<I", data[-8:-4])[0] + 8)
        return data[:-size] + mutate_bytes(rng, data[-size:])
    if choice < 0.6:
        end = struct.pack("<I", rng.choice((0, 1, len(data), 1 << 30, (1 << 32) - 1)))
        return data[:-8] + end + data[-4:]
    table = _changed(rng, pq.read_table(io.BytesIO(data)))
    sink = io.BytesIO()
    compression = rng.choice(("zstd", "zstd", "none", "gzip", "snappy"))
    pq.write_table(table, sink, compression=compression, row_group_size=rng.choice((None, 1, 3)))
    return sink.getvalue()


def _read_arrow(data: bytes) -> pa.Table | None:
    for open_ in (pa.ipc.open_stream, pa.ipc.open_file):
        try:
            return open_(pa.py_buffer(data)).read_all()
        except (pa.ArrowException, OSError):
            continue
    return None


def _written(rng: Random, table: pa.Table, *, options: bool) -> bytes:
    sink = pa.BufferOutputStream()
    kind = pa.ipc.new_file if options and rng.random() < 0.5 else pa.ipc.new_stream
    write = pa.ipc.IpcWriteOptions(compression=rng.choice(("zstd", "lz4", None)) if options else None)
    with kind(sink, table.schema, options=write) as writer:
        writer.write_table(table.unify_dictionaries(), max_chunksize=rng.choice((2, 1 << 20)))
    return bytes(sink.getvalue())


def _poke_buffer(rng: Random, data: bytes, table: pa.Table) -> bytes:
    """Set a raw value of a column: an index, an offset, a bit of validity, under a null or not."""
    column = rng.choice(
        [column for column in table.columns if column.num_chunks and len(column)] or [pa.chunked_array([[0]])]
    )
    chunk = column.chunk(0)
    parts = [*chunk.buffers(), *(chunk.dictionary.buffers() if isinstance(chunk, pa.DictionaryArray) else ())]
    buffer = rng.choice([bytes(part) for part in parts if part is not None and part.size >= 4] or [b""])
    start = data.find(buffer) if buffer else -1
    if start < 0:
        return _poke_start(rng, data, table)
    place = start + 4 * rng.randrange(len(buffer) // 4)
    return data[:place] + struct.pack("<i", rng.choice(_INT32)) + data[place + 4 :]


def _poke_length(rng: Random, data: bytes, table: pa.Table) -> bytes:
    """Set a number that says how long something is."""
    wanted = struct.pack("<q", rng.choice((len(table), 0, 8, 64)))
    places = [place for place in range(0, len(data) - 8, 4) if data[place : place + 8] == wanted]
    if not places:
        return mutate_bytes(rng, data)
    place = rng.choice(places)
    return data[:place] + struct.pack("<q", rng.choice(_INT64)) + data[place + 8 :]


def _poke_start(rng: Random, data: bytes, _: pa.Table) -> bytes:
    """Set a byte of the schema, which comes first."""
    changed = bytearray(data)
    changed[rng.randrange(min(len(changed), 2000))] = rng.choice((0, 1, 4, 255, rng.randrange(256)))
    return bytes(changed)


def _changed(rng: Random, table: pa.Table) -> pa.Table:
    return rng.choice(_CHANGES)(rng, table)


def _other_values(rng: Random, table: pa.Table) -> pa.Table:
    place = rng.randrange(table.num_columns)
    field = table.schema.field(place)
    values: list[Any] = table.column(place).to_pylist()
    for _ in range(rng.choice((1, 1, len(values)))):
        if values:
            values[rng.randrange(len(values))] = _value(rng, field.type)
    return table.set_column(
        place, pa.field(field.name, field.type), pa.array(values, _plain(field.type)).cast(field.type)
    )


def _value(rng: Random, kind: pa.DataType) -> Any:
    if rng.random() < 0.15:
        return None
    if pa.types.is_floating(kind):
        return rng.choice((0.0, -1.5, float("nan"), float("inf"), 1e300))
    if pa.types.is_integer(kind):
        largest = (1 << (kind.bit_width - 1)) - 1
        return max(-largest - 1, min(largest, rng.choice(_INT64)))
    return rng.choice(_TEXT)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _other_type(rng: Random, table: pa.Table) -> pa.Table:
    place = rng.randrange(table.num_columns)
    kind = rng.choice((pa.string(), pa.int64(), pa.int8(), pa.float64(), pa.binary(), pa.list_(pa.int64())))
    values = pa.array([None if pa.types.is_nested(kind) or rng.random() < 0.1 else 1] * len(table), pa.int8())
    column = pa.nulls(len(table), kind) if pa.types.is_nested(kind) else values.cast(pa.string()).cast(kind)
    return table.set_column(place, table.schema.field(place).name, column)


def _other_columns(rng: Random, table: pa.Table) -> pa.Table:
    names = table.schema.names
    place = rng.randrange(len(names))
    match rng.randrange(4):
        case 0:
            return table.remove_column(place)
        case 1:
            return table.rename_columns([*names[:place], rng.choice((*names, "new", "")), *names[place + 1 :]])
        case 2:
            return table.append_column(rng.choice((*names, "new")), table.column(place))
        case _:
            return table.select(rng.sample(names, len(names)))


def _other_rows(rng: Random, table: pa.Table) -> pa.Table:
    rows = [rng.randrange(len(table)) for _ in range(rng.choice((0, 1, len(table), 60)))] if len(table) else []
    return table.take(pa.array(rows, pa.int64()))


def _other_metadata(rng: Random, table: pa.Table) -> pa.Table:
    metadata = dict(table.schema.metadata or {})
    text = metadata.get(_INFO, b"{}")
    metadata[_INFO] = rng.choice((mutate_json(rng, text), mutate_json(rng, text), mutate_bytes(rng, text)))
    if rng.random() < 0.1:
        del metadata[_INFO]
    return table.replace_schema_metadata(metadata)


_CHANGES: tuple[Callable[[Random, pa.Table], pa.Table], ...] = (
    *(_other_values, _other_values, _other_values, _other_type, _other_columns, _other_rows),
    *(_other_metadata, _other_metadata),
)
