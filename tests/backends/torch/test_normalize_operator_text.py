"""Operators that are read by their text are those that the JSON decoder reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unified_profiler.errors import TraceFormatError
from unified_profiler.spi import NativeCapture
from unified_profiler_torch.read import events, operator_text
from unified_profiler_torch.read.args import ArgsReader
from unified_profiler_torch.read.labels import LabelIndex
from unified_profiler_torch.read.normalizer import KinetoNormalizer

OPERATOR = b"""
  {
    "ph": "X",
    "cat": "cpu_op",
    "name": "%b",
    "pid": 71,
    "tid": 72,
    "ts": %b,
    "dur": %b
    ,
    "args": {
      %b
    }
  }"""
ARROW = b"""
  {
    "ph": "s",
    "id": 101,
    "pid": 71,
    "tid": 72,
    "ts": 5.100,
    "cat": "fwdbwd",
    "name": "fwdbwd"
  }"""
ANNOTATION = b"""
  {
    "ph": "X", "cat": "user_annotation", "name": "mine", "pid": 71, "tid": 72, "ts": 6.000, "dur": 1.000
  }"""
PLAIN = b'"External id": 12,"Record function id": 0, "Ev Idx": 34'
LINKED = b'"External id": 12,"Record function id": 0, "Sequence number": 56, "Fwd thread id": 7, "Ev Idx": 34'
SHAPES = (
    b'"External id": 12,"Sequence number": 56, "Fwd thread id": 7, "Record function id": 0, '
    b'"Concrete Inputs": ["", "1"], "Input type": ["float", "Scalar"], '
    b'"Input Strides": [[4, 1], []], "Input Dims": [[2, 4], []], "Ev Idx": 34'
)
LAST = ANNOTATION.replace(b"mine", b"m" * operator_text._ROOM)
"""Fills the end of a block, in which all events are decoded."""


def operator(name: bytes = b"aten::add", ts: bytes = b"5.000", dur: bytes = b"1.500", args: bytes = PLAIN) -> bytes:
    return OPERATOR % (name, ts, dur, args)


def document(*entries: bytes) -> bytes:
    body = b",".join([*entries, LAST])
    return b'{"schemaVersion": 1, "traceEvents": [\n    ' + body + b'\n  ],"traceName": "t" }'


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collects how many operators were read by their text."""
    counts: list[int] = []

    def counting(*args: Any) -> Any:
        operators = operator_text.read_operators(*args)
        counts.append(0 if operators is None else len(operators.rows))
        return operators

    monkeypatch.setattr(events, "read_operators", counting)
    return counts


def normalized(text: bytes, folder: Path) -> pa.Table:
    path = folder / "trace.json"
    path.write_bytes(text)
    return KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(path,)))


def decoded(text: bytes, folder: Path) -> pa.Table:
    """Read all events by the JSON decoder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "read_operators", lambda *_: None)
        return normalized(text, folder)


def result(read: Callable[[bytes, Path], pa.Table], text: bytes, folder: Path) -> Any:
    try:
        return read(text, folder).to_pylist()
    except TraceFormatError as error:
        return str(error)


@pytest.mark.parametrize("args", [PLAIN, LINKED, SHAPES])
@pytest.mark.parametrize("ts", [b"0.000", b"7.001", b"4196183988349.884", b"99999999.999", b"100000000.000"])
def test_an_operator_is_read_by_its_text(args: bytes, ts: bytes, tmp_path: Path, texts: list[int]) -> None:
    text = document(
        operator(ts=ts, args=args), operator(b'quote \\" and newline \\n', dur=b"12345678.987", args=LINKED)
    )
    assert normalized(text, tmp_path).to_pylist() == decoded(text, tmp_path).to_pylist()
    assert texts == [2]


@pytest.mark.parametrize(
    "entry",
    [
        operator(ts=b"5"),
        operator(ts=b"5.0"),
        operator(ts=b"5.0000"),
        operator(ts=b"-5.000"),
        operator(ts=b"5.000e2"),
        operator(ts=b"1712195495519689.047"),
        operator(name=b"aten::add").replace(b"71", b'"Spans"'),
        operator(args=PLAIN.replace(b"12", b"123456789")),
        operator(args=PLAIN.replace(b'"Ev Idx"', b'"New key": 5, "Ev Idx"')),
        operator(args=PLAIN.replace(b"34", b'34, "New key": 5')),
        operator(args=PLAIN.replace(b"34", b"34.5")),
        operator().replace(b"cpu_op", b"cuda_runtime"),
        operator().replace(b"cpu_op", b"quantum_op"),
        operator().replace(b'"ph": "X"', b'"ph": "i"'),
        ARROW,
        ANNOTATION,
    ],
)
def test_other_events_are_decoded_between_operators(entry: bytes, tmp_path: Path, texts: list[int]) -> None:
    text = document(operator(), entry, operator(), operator())
    assert result(normalized, text, tmp_path) == result(decoded, text, tmp_path)
    assert texts[0] == 3


@pytest.mark.parametrize("length", [0, 1, 300, operator_text._ROOM, 2 * operator_text._ROOM])
def test_an_operator_with_a_long_name_may_end_the_block(length: int, tmp_path: Path) -> None:
    text = document(operator(), operator(), operator(b"n" * length)).replace(b"," + LAST, b"")
    assert result(normalized, text, tmp_path) == result(decoded, text, tmp_path)


@pytest.mark.parametrize("number", [b"05.000", b"5.", b".5", b"", b"5,000"])
def test_a_time_that_is_no_number_is_damage(number: bytes, tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="not valid JSON"):
        normalized(document(operator(), operator(ts=number), operator()), tmp_path)


def test_an_unexpected_event_is_counted_in_the_whole_block(tmp_path: Path) -> None:
    wrong = ANNOTATION.replace(b'"pid": 71', b'"pid": [71]')
    with pytest.raises(TraceFormatError, match=r"counted from event 0,.*at `\$\[2\]"):
        normalized(document(operator(), operator(), wrong, operator()), tmp_path)


@settings(max_examples=1000)
@given(data=st.data())
def test_damaged_text_is_read_as_the_decoder_reads_it(data: st.DataObject, tmp_path_factory: Any) -> None:
    entries = [operator(), operator(args=LINKED), ARROW, operator(args=SHAPES), ANNOTATION, operator(args=LINKED)]
    text = bytearray(document(*entries))
    end = 40 + sum(map(len, entries))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(40, end))
        inserted = data.draw(st.sampled_from([b"", *(bytes([byte]) for byte in b'09e.,:-{}[] \n"\\x'), b"\xff"]))
        text[position : position + data.draw(st.integers(0, 12))] = inserted
    folder = tmp_path_factory.mktemp("damaged")
    assert result(normalized, bytes(text), folder) == result(decoded, bytes(text), folder)


@pytest.mark.parametrize("shapes", [False, True])
def test_a_recording_of_torch_is_read_by_its_text(
    shapes: bool, train: Callable[[], None], record: Callable[..., NativeCapture], tmp_path: Path
) -> None:
    (path,) = record(train, record_shapes=shapes).files
    text = path.read_bytes()
    assert normalized(text, tmp_path).to_pylist() == decoded(text, tmp_path).to_pylist()


def test_nearly_all_operators_of_torch_have_this_form(tmp_path: Path, texts: list[int]) -> None:
    layer = torch.nn.Linear(4, 4)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        for _ in range(20):
            layer(torch.ones(2, 4)).sum().backward()
    profile.export_chrome_trace(str(tmp_path / "torch.json"))
    table = normalized((tmp_path / "torch.json").read_bytes(), tmp_path)
    assert len(table) - operator_text._ROOM // len(OPERATOR) <= texts[0] <= len(table)


def test_numbers_of_up_to_eight_digits_are_read_exactly() -> None:
    numbers = [0, 7, 10, 12345678, 99999999, 5, 100]
    joined = b" ".join(str(number).encode() for number in numbers) + b" " * 8
    starts = np.cumsum([0, *(len(str(number)) + 1 for number in numbers[:-1])])
    values, digits = operator_text._Text(joined).number(starts)
    assert values.tolist() == numbers
    assert digits.tolist() == [len(str(number)) for number in numbers]


def test_a_block_without_operators_is_left_to_the_decoder() -> None:
    labels, args = LabelIndex(), ArgsReader()
    assert operator_text.read_operators(b"[]", labels.code_of_text, args.inputs_code) is None
    assert operator_text.read_operators(b'[{"ph": "X"}]', labels.code_of_text, args.inputs_code) is None
