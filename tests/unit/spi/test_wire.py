"""Decoding protobuf's wire format, compared with the protobuf runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unified_profiler.spi.protobuf import message_classes
from unified_profiler.spi.wire import BYTES, FIXED32, FIXED64, Buffer, Messages, Ranges, WireError, fields_of

CLASSES = message_classes(
    "unified_profiler.tests.wire",
    {
        "Many": {"records": (1, "repeated Record")},
        "Record": {
            "number": (1, "int64"),
            "text": (2, "bytes"),
            "far": (300, "uint64"),
            "double": (4, "double"),
            "half": (5, "fixed32"),
            "parts": (6, "repeated Part"),
        },
        "Part": {"size": (1, "int64")},
    },
)
NUMBERS = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from([0, 1, 127, 128, (1 << 56) - 1, 1 << 56]))
RECORDS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "number": NUMBERS,
            "text": st.binary(max_size=200),
            "far": st.integers(0, (1 << 64) - 1),
            "double": st.floats(allow_nan=False),
            "half": st.integers(0, (1 << 32) - 1),
            "parts": st.lists(NUMBERS.map(lambda size: {"size": size}), max_size=4),
        },
    ),
    max_size=5,
)
COPIES = [1, 40]
"""Few messages are decoded one by one, many together."""


def decoded(records: list[dict[str, Any]]) -> Messages:
    data = CLASSES["Many"](records=records).SerializeToString()
    return Buffer(data).messages().children(1)[1]


@pytest.mark.parametrize("copies", COPIES)
@given(records=RECORDS)
def test_fields_are_those_of_the_runtime(records: list[dict[str, Any]], copies: int) -> None:
    messages = decoded(records * copies)
    expected = [CLASSES["Record"](**record) for record in records * copies]
    assert messages.integers(1).tolist() == [record.number for record in expected]
    assert messages.integers(300).view(np.uint64).tolist() == [record.far for record in expected]
    assert messages.texts(2) == [record.text for record in expected]


@pytest.mark.parametrize("copies", COPIES)
@given(records=RECORDS)
def test_repeated_messages_keep_their_owner_and_order(records: list[dict[str, Any]], copies: int) -> None:
    owner, parts = decoded(records * copies).children(6)
    expected = [(n, part["size"]) for n, record in enumerate(records * copies) for part in record.get("parts", ())]
    assert list(zip(owner.tolist(), parts.integers(1).tolist(), strict=True)) == expected


@given(value=st.floats(allow_nan=False), half=st.integers(1, (1 << 32) - 1))
def test_values_of_a_fixed_size_are_bits(value: float, half: int) -> None:
    encoded = CLASSES["Record"](double=value, half=half, text=b"x").SerializeToString()
    fields = {field.number: field for field in fields_of(encoded)}
    if 4 in fields:
        assert fields[4].wire_type == FIXED64
        assert np.array([fields[4].value], np.uint64).view(np.float64)[0] == value
    assert (fields[5].wire_type, fields[5].value) == (FIXED32, half)
    assert (fields[2].wire_type, encoded[fields[2].start : fields[2].end]) == (BYTES, b"x")


@given(st.integers(0, 8).flatmap(lambda size: st.binary(min_size=size, max_size=size + 12)))
@example(bytes([FIXED64]) + bytes(8))
@example(bytes([FIXED32]) + bytes(4))
def test_any_bytes_are_decoded_alike_alone_and_together(data: bytes) -> None:
    """Copies that are decoded together give the fields of one that is decoded alone, or the same kind of error."""
    copies = 70
    start = np.arange(copies) * len(data)
    together = Buffer(data * copies)
    try:
        fields = fields_of(data)
    except WireError:
        with pytest.raises(WireError):
            together.messages(start, start + len(data))
        return
    messages = together.messages(start, start + len(data))
    of_last = np.flatnonzero(messages.message == copies - 1)
    assert messages.tag[of_last].tolist() == [field.number << 3 | field.wire_type for field in fields]
    assert messages.value[of_last].view(np.uint64).tolist() == [field.value for field in fields]
    assert (messages.start[of_last] - start[-1]).tolist() == [field.start for field in fields]
    assert (messages.end[of_last] - start[-1]).tolist() == [field.end for field in fields]


@pytest.mark.parametrize("copies", [1, 100])
@pytest.mark.parametrize(
    "data",
    [
        b"\x08",
        b"\x08\xff",
        b"\x08" + b"\xff" * 10,
        b"\x08" + b"\x80" * 9 + b"\x02",
        b"\x12\x05abc",
        b"\x12" + b"\xff" * 9 + b"\x01",
        b"\x0b\x0c",
        b"\x0f\x00",
        b"\x00\x00",
        b"\x09abc",
        b"\x0dabc",
    ],
    ids=bytes.hex,
)
def test_damage_is_an_error(data: bytes, copies: int) -> None:
    with pytest.raises(WireError):
        Buffer(data * copies).messages(np.arange(copies) * len(data), np.arange(1, copies + 1) * len(data))


def test_a_message_cannot_end_after_the_data() -> None:
    with pytest.raises(WireError, match="after the data"):
        Buffer(b"\x08\x01").messages([0], [3])


def test_a_leading_integer_needs_no_decoding_of_the_rest() -> None:
    data = b"\x08\x96\x01\x12\x7f" + b"\x12\x01x" + b"\x08\x05" + b""
    ranges = Ranges(np.arange(4), np.array([0, 5, 8, 10]), np.array([5, 8, 10, 10]))
    assert Buffer(data).leading_integers(1, ranges).tolist() == [150, -1, 5, -1]


def test_one_long_message_beside_many_short_ones() -> None:
    counts = [3, 1000, *[1] * 100]
    owner, parts = decoded([{"parts": [{"size": n} for n in range(count)]} for count in counts]).children(6)
    assert np.bincount(owner).tolist() == counts
    assert parts.integers(1).tolist() == [n for count in counts for n in range(count)]
