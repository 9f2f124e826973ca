from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.export.spreadsheets import inert, inert_texts
from unified_profiler.model.text import storable

STARTS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
TEXTS = st.text(st.sampled_from(f"{STARTS}'a \"")) | st.text().map(storable)


@pytest.mark.parametrize("start", STARTS)
def test_a_formula_becomes_text(start: str) -> None:
    assert inert(f"{start}cmd()") == f"'{start}cmd()"


@pytest.mark.parametrize("text", ["", "a=b", "aten::add", " =x", "'", "'a", "1-2", "\n".join("ab")])
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert inert(text) == text


@given(TEXTS)
def test_no_text_begins_a_formula(text: str) -> None:
    assert inert(text)[:1] not in set(STARTS)


@given(TEXTS, TEXTS)
def test_different_texts_stay_different(one: str, other: str) -> None:
    assert (inert(one) == inert(other)) == (one == other)


@given(st.lists(st.none() | TEXTS))
def test_columns_are_made_inert_as_single_texts_are(texts: list[str | None]) -> None:
    column = pa.chunked_array([pa.array(texts, pa.string()).dictionary_encode()])
    assert inert_texts(column).to_pylist() == [None if text is None else inert(text) for text in texts]


def test_columns_of_numbers_stay() -> None:
    column = pa.chunked_array([[-1, None]])
    assert inert_texts(column) is column
