from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.model.arrow_arrays import (
    as_array,
    is_null,
    number_array,
    repeated_number,
    repeated_text,
    text_array,
    to_numpy,
)

OPTIONAL = st.lists(st.none() | st.integers(-(1 << 62), 1 << 62), max_size=40)


@given(OPTIONAL)
def test_numbers_equal_those_that_arrow_builds(values: list[int | None]) -> None:
    missing = np.array([value is None for value in values], np.bool_)
    array = number_array(np.array([value or 0 for value in values], np.int64), missing=missing)
    array.validate(full=True)
    assert array.equals(pa.array(values, pa.int64()))


@pytest.mark.parametrize("values", [[True, False, True], [1.5, -2.0], [], [3, 4]])
@pytest.mark.parametrize("dtype", ["bool", "int16", "float64"])
def test_every_type_of_number_is_kept(values: list[Any], dtype: str) -> None:
    numbers = np.array(values, dtype)
    assert number_array(numbers).equals(pa.array(numbers))


def test_an_array_that_is_not_contiguous_is_kept() -> None:
    assert number_array(np.arange(10)[::3]).to_pylist() == [0, 3, 6, 9]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=20))
def test_texts_equal_those_that_arrow_builds(texts: list[str]) -> None:
    array = text_array(texts)
    array.validate(full=True)
    assert array.equals(pa.array(texts, pa.string()))


@given(OPTIONAL, st.integers(0, 10), st.booleans())
def test_numbers_are_converted_back_whatever_their_chunks_and_offset(
    values: list[int | None], skipped: int, chunked: bool
) -> None:
    array = pa.array(values, pa.int64())
    column = pa.chunked_array([array, array]) if chunked else array
    expected = (values * 2 if chunked else values)[skipped:]
    assert to_numpy(column.slice(skipped), null=-7).tolist() == [-7 if value is None else value for value in expected]
    assert is_null(column.slice(skipped)).tolist() == [value is None for value in expected]


@pytest.mark.parametrize("values", [[1, None], ["a"], np.array([2, 3]), pa.array([4]), np.array([1, None], object)])
def test_any_sequence_becomes_an_array(values: Any) -> None:
    assert as_array(values).equals(pa.array(values))


@pytest.mark.parametrize("value", [5, None])
def test_a_repeated_number(value: int | None) -> None:
    assert repeated_number(value, pa.int32(), 3).equals(pa.array([value] * 3, pa.int32()))


@pytest.mark.parametrize("value", ["box", None])
def test_a_repeated_text(value: str | None) -> None:
    assert repeated_text(value, 3).to_pylist() == [value] * 3
