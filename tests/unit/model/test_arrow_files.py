"""Tables of files that anybody may have written, and of our own: no index may lie outside its dictionary."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.arrow_files import read_stream, validated, write_stream
from unified_profiler.model.columns import text_column
from unified_profiler.model.schema import EVENT_SCHEMA, TEXT, event_table

TABLE = event_table(
    {"name": ["a", "b"], "op": ["Add", None], "layer": "api", "kind": "op", "start_ns": [1, 2], "duration_ns": 1},
    rows=2,
)


def indices(array: pa.DictionaryArray) -> npt.NDArray[np.int32]:
    """The indices as they are in memory, those under nulls included."""
    buffer = array.indices.buffers()[1]
    return np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array)]


def unsound(values: list[int], valid: list[bool], dictionary: list[str]) -> pa.Table:
    """A column whose indices are as given, also where they are null."""
    bitmap = pa.array(valid).buffers()[1]
    data = pa.Array.from_buffers(pa.int32(), len(values), [bitmap, pa.py_buffer(np.array(values, np.int32))])
    return pa.table({"x": pa.DictionaryArray.from_arrays(data, pa.array(dictionary), safe=False)})


@given(
    codes=st.lists(st.integers(-1, 3), min_size=1, max_size=20),
    texts=st.lists(st.none() | st.sampled_from(["a", "b", "c"]), min_size=4, max_size=4),
)
def test_a_text_column_has_an_index_of_its_dictionary_in_every_slot(codes: list[int], texts: list[str | None]) -> None:
    column = text_column(np.array(codes, np.int64), texts)
    wanted = [None if code < 0 else texts[code] for code in codes]
    if column is None:
        assert not any(wanted)
        return
    assert column.to_pylist() == wanted
    assert ((indices(column) >= 0) & (indices(column) < len(column.dictionary))).all()


def test_an_index_outside_its_dictionary_under_a_null_is_put_inside() -> None:
    table = validated(unsound([0, -1, 1, 1920037489], [True, False, True, False], ["a", "b"]))
    assert table.column("x").to_pylist() == ["a", None, "b", None]
    assert indices(table.column("x").chunk(0)).tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_outside_its_dictionary_is_refused(index: int) -> None:
    with pytest.raises(pa.ArrowInvalid, match="out of bounds"):
        validated(unsound([0, index], [True, True], ["a", "b"]))


def test_a_stream_comes_back(tmp_path: Path) -> None:
    write_stream(TABLE, tmp_path / "t.arrow")
    assert read_stream("t.arrow", (tmp_path / "t.arrow").read_bytes(), EVENT_SCHEMA).equals(TABLE)


def in_stream(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_compressed_stream_is_refused_before_anything_is_unpacked(compression: str) -> None:
    with pytest.raises(TraceFormatError, match="is compressed"):
        read_stream("t.arrow", in_stream(TABLE, compression=compression), EVENT_SCHEMA)


def test_other_columns_are_refused() -> None:
    with pytest.raises(TraceFormatError, match="its columns are"):
        read_stream("t.arrow", in_stream(pa.table({"x": pa.nulls(3)})), EVENT_SCHEMA)


@pytest.mark.parametrize("damage", [slice(0, 0), slice(0, 20), slice(0, -9), slice(8, None)])
def test_a_damaged_stream_is_a_typed_error(damage: slice) -> None:
    content = in_stream(TABLE)
    with pytest.raises(TraceFormatError, match=r"t\.arrow"):
        read_stream("t.arrow", content[damage][:-8], EVENT_SCHEMA)


def test_a_stream_that_is_still_written_is_read_up_to_its_last_whole_batch() -> None:
    table = pa.table({"x": [1, 2, 3]})
    content = in_stream(table, use_legacy_format=False)[:-8]
    batch = in_stream(table)[len(in_stream(table.slice(0, 0))) - 8 : -8]
    cut = content + batch[:-5]
    assert read_stream("t.arrow", cut, table.schema, rows=3).column("x").to_pylist() == [1, 2, 3]
    with pytest.raises(TraceFormatError, match="holds 3 rows, expected at least 6"):
        read_stream("t.arrow", cut, table.schema, rows=6)


def test_unifying_dictionaries_keeps_nulls_null() -> None:
    """Arrow looks up every index then, those under nulls included."""
    first, second = text_column(np.array([0, -1, 1]), ["a", "b"]), text_column(np.array([-1, 0]), ["c"])
    tables = [pa.table({"x": pa.array(column, TEXT)}) for column in (first, second)]
    joined = pa.concat_tables(tables).unify_dictionaries().combine_chunks().column("x")
    assert joined.to_pylist() == ["a", None, "b", None, "c"]
    assert set(indices(joined.chunk(0)).tolist()) <= {0, 1, 2}
