from __future__ import annotations

import json
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.recording.api.call_texts import CallTexts, as_attributes


class Color(IntEnum):
    RED = 1


class Loud:
    def __repr__(self) -> str:
        msg = "nobody may ask"
        raise RuntimeError(msg)

    def __len__(self) -> int:
        raise RuntimeError


class Tensor:
    shape = (2, 3)


class Parameter(Tensor):
    pass


class Odd(Tensor):
    @property
    def shape(self) -> Any:  # type: ignore[override]
        msg = "not yet built"
        raise ValueError(msg)


TEXTS = CallTexts({Tensor: lambda value: f"{type(value).__name__}[{value.shape[0]},{value.shape[1]}]"})


def said(*args: Any, **kwargs: Any) -> Any:
    return json.loads(as_attributes(TEXTS.of(args, kwargs)) or "{}")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (3, "3"),
        (1.5, "1.5"),
        (1 << 20000, "int of 20001 bits"),
        ("short", "'short'"),
        ("a\x1fb\x1ec", "'a\\x1fb\\x1ec'"),
        ("\udc80", "'\\udc80'"),
        ("x" * 500, "'" + "x" * 56 + "..."),
        (b"12345", "bytes[5]"),
        ([1, 2.0, "x"], "[1, 2.0, 'x']"),
        ((), "()"),
        (list(range(100)), "[0, 1, 2, 3, 4, 5, ... 100 in all]"),
        ({"a": 1}, "dict[1]"),
        (slice(1, 2), "1:2"),
        (slice(None, None, 2), "::2"),
        (..., "..."),
        (int, "int"),
        (len, "len"),
        (Color.RED, "Color"),
        (Loud(), "Loud"),
        (np.ones((4, 16), np.float32), "ndarray[4,16] float32"),
        (Tensor(), "Tensor[2,3]"),
        (Parameter(), "Parameter[2,3]"),
        ([Tensor(), Loud()], "[Tensor[2,3], Loud]"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_values_are_told_in_a_few_words(value: Any, text: str) -> None:
    assert said(value) == {"args": [text]}


def test_keywords_are_told_by_name() -> None:
    assert said(1, dim=2, out=None) == {"args": ["1"], "kwargs": {"dim": "2", "out": "None"}}
    assert said() == {}
    assert as_attributes(TEXTS.of((), None)) is None


def test_a_value_that_cannot_be_told_fails_nothing() -> None:
    assert said(1, Odd()) == {"args": ["?"]}


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=20))
def test_any_value_gives_a_short_text_that_can_be_stored(value: Any) -> None:
    (text,) = said(value)["args"]
    assert len(text) <= 60
    text.encode()
