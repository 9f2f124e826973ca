from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.export import fragments, row_text
from unified_profiler.export.fragments import constant, either, lookup, member, microseconds, milliseconds, whole
from unified_profiler.export.row_text import RowText, joined, row_blocks
from unified_profiler.model.schema import EventTable, event_table

ROWS = 500
NUMBERS = np.arange(ROWS) * 7919 % 100_003
FLAGS = NUMBERS % 3 == 0

Expected = Callable[[int], str]
PARTS: list[tuple[RowText, Expected]] = [
    (constant("<é>"), lambda _: "<é>"),
    (lookup(["", "a", "bb"], NUMBERS % 3), lambda row: ["", "a", "bb"][NUMBERS[row] % 3]),
    (lookup([f"[{i}]" for i in range(20)], NUMBERS % 20), lambda row: f"[{NUMBERS[row] % 20}]"),
    (lookup([f"({i})" for i in range(ROWS)], np.arange(ROWS)), lambda row: f"({row})"),
    (whole(NUMBERS), lambda row: str(NUMBERS[row])),
    (either(FLAGS, constant("yes"), whole(NUMBERS)), lambda row: "yes" if FLAGS[row] else str(NUMBERS[row])),
    (lookup(["x", "y"], NUMBERS % 2).only_where(FLAGS), lambda row: "xy"[NUMBERS[row] % 2] if FLAGS[row] else ""),
]


@given(
    st.lists(st.sampled_from(range(len(PARTS))), min_size=1, max_size=6),
    st.lists(st.integers(0, ROWS - 1), max_size=20),
)
def test_a_row_has_the_texts_of_all_its_parts_in_order(chosen: list[int], rows: list[int]) -> None:
    text = joined([PARTS[index][0] for index in chosen])
    expected = ["".join(PARTS[index][1](row) for index in chosen) for row in rows]
    picked = np.array(rows, np.int64)
    assert text.texts(picked).to_pylist() == expected
    assert bytes(text.buffer(picked)).decode() == "".join(expected)


def test_parts_with_few_combinations_are_combined() -> None:
    parts = [lookup(["a", "b"], NUMBERS % 2), constant("-"), lookup(["c", "d"], NUMBERS // 2 % 2)]
    assert len(joined(parts).parts) == 1


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=5))
def test_times_are_exact_to_the_nanosecond(nanoseconds: list[int]) -> None:
    values, rows = np.array(nanoseconds, np.int64), np.arange(len(nanoseconds))
    assert [text.replace(".", "").lstrip("0") for text in microseconds(values).texts(rows).to_pylist()] == [
        str(value).lstrip("0") for value in nanoseconds
    ]
    assert [text.partition(".")[2] for text in milliseconds(values).texts(rows).to_pylist()] == [
        f"{value % 10**6:06d}" for value in nanoseconds
    ]


def _events(**columns: Any) -> EventTable:
    return event_table(columns, rows=len(next(iter(columns.values()))))


@pytest.mark.parametrize("most_texts", [1, 1000])
def test_texts_are_the_same_for_few_and_for_many_distinct_ones(
    most_texts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragments, "_MOST_TEXTS", most_texts)
    events = _events(attributes=['{"a":1}', None, "{broken", '{"a":1}'], name=["n", 'q"', "n", "n"])
    text = joined([member(events, "attributes"), member(events, "name", key="label")])
    assert text.texts(np.arange(4)).to_pylist() == [
        ',"attributes":{"a":1},"label":"n"',
        ',"label":"q\\""',
        ',"attributes":"{broken","label":"n"',
        ',"attributes":{"a":1},"label":"n"',
    ]


@pytest.mark.parametrize("few", [0, 100])
def test_numbers_are_the_same_for_few_and_for_many_distinct_ones(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "_FEW_IN_SAMPLE", few)
    text = member(_events(bytes=[5, None, -(2**63), 5]), "bytes")
    assert text.texts(np.arange(4)).to_pylist() == [',"bytes":5', "", ',"bytes":-9223372036854775808', ',"bytes":5']


def test_a_dictionary_larger_than_the_table_is_used_in_part() -> None:
    events = _events(name=[f"op {number}" for number in range(100)]).slice(40, 2)
    assert member(events, "name").texts(np.arange(2)).to_pylist() == [',"name":"op 40"', ',"name":"op 41"']


def test_blocks_cover_each_row_once() -> None:
    assert np.concatenate(list(row_blocks(range(3, 40_000)))).tolist() == list(range(3, 40_000))


def test_no_row_has_no_text() -> None:
    assert pa.concat_arrays([whole(NUMBERS).texts(NUMBERS[:0])]).to_pylist() == []


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_parts_of_rows_have_their_own_text_however_they_are_assembled(sizes: list[int]) -> None:
    rows = np.arange(sum(sizes))[::-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_text, "ROWS_PER_BLOCK", 5)
        parts = [b"".join(map(bytes, part)) for part in whole(NUMBERS).parts_of(rows, sizes)]
    ends = np.cumsum(sizes).tolist()
    assert parts == [
        "".join(str(NUMBERS[row]) for row in rows[end - size : end]).encode()
        for end, size in zip(ends, sizes, strict=True)
    ]
