"""Reads operators by converting the text of many events at once, which takes half the time of decoding their JSON.

An event is read here only if all of its text has the form in which Kineto writes operators, and its label and inputs
are read by the JSON decoder. Every other event is left to the decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.arrow_arrays import number_array, to_numpy
from unified_profiler.model.nesting import Ints
from unified_profiler.model.tree import Flags
from unified_profiler_torch.read.args import Columns
from unified_profiler_torch.read.args_layouts import MISSING

Words = npt.NDArray[np.uint64]
TextReader = Callable[[bytes], "int | None"]
"""Returns the code of a text, None if it does not have the expected form."""

_WORD = 8
_ROOM = 1 << 10
"""Bytes at the end of a block in which no times are read here, since reading looks beyond the end of an operator."""
_NEWLINE, _POINT, _ZERO = b"\n.0"
_OPENING = b"\n  {\n"
_LINES = 13
"""Lines of an operator, from its opening bracket to its closing one."""
# lines of an operator, counted from its opening bracket
_LABEL_LINE, _TIME_LINE, _DURATION_LINE, _ARGS_LINE, _CLOSING_LINE = 1, 6, 7, 8, 11
_CLOSING = b"\n    }\n  },"
_LAST_KEY = b', "Ev Idx": '
_MOST_DIGITS = 15
"""Digits of the longest time in microseconds."""
_DECIMALS = 3
_TEN = 10
_POWERS = 10 ** np.arange(_WORD + 1, dtype=np.int64)


class Operators(NamedTuple):
    """The operators of a block, and the other events of it."""

    rows: Ints
    """Their numbers among the events of the block."""
    columns: Columns
    """Label, times in nanoseconds (`ts`, `dur`), sequence number, forward thread, code of the inputs; -1 for none."""
    event_count: int
    """Number of events in the block."""
    others: bytes
    """The other events as a JSON list."""


def read_operators(block: bytes, label_code: TextReader, inputs_code: TextReader) -> Operators | None:
    """Read the operators of a block; None if no event has the layout of Kineto's own files.

    Args:
        block: A JSON list of events.
        label_code: Reads the lines from phase to thread.
        inputs_code: Reads the members of `args` that describe inputs.
    """
    if len(block) < _ROOM:
        return None
    text = _Text(block)
    newlines = np.flatnonzero(text.bytes[:-_WORD] == _NEWLINE)
    lines = np.flatnonzero(np.diff(newlines) == len(_OPENING) - 1)
    lines = lines[text.contains(newlines[lines], _OPENING)]
    if not len(lines) or block[1 : newlines[lines[0]]].strip():
        return None
    ends = np.append(newlines[lines[1:]], len(block))
    rows = np.flatnonzero(np.diff(lines) == _LINES)
    rows = rows[: np.searchsorted(newlines[lines[rows] + _TIME_LINE], len(block) - _ROOM)]
    columns, fits = _read(text, newlines, lines[rows], ends[rows], label_code, inputs_code)
    is_other = np.ones(len(lines), np.bool_)
    is_other[rows[fits]] = False
    columns = {name: column[fits] for name, column in columns.items()}
    return Operators(rows[fits], columns, len(lines), _joined(block, newlines[lines], ends, is_other))


def _read(
    text: _Text, newlines: Ints, first: Ints, end: Ints, label_code: TextReader, inputs_code: TextReader
) -> tuple[Columns, Flags]:
    """Return the columns of `Operators` for events with the right number of lines, and which of them are operators.

    Args:
        text: The block.
        newlines: Positions of all newlines.
        first: Number of each event's first line.
        end: Position behind each event.
        label_code: See `read_operators`.
        inputs_code: See `read_operators`.
    """
    start_of = [newlines[first + line] for line in range(_LINES)]
    label = text.codes(start_of[_LABEL_LINE], start_of[_TIME_LINE], label_code)
    cursor = _Cursor(text, start_of[_TIME_LINE], label >= 0)
    ts = cursor.skip(b'\n    "ts": ').decimal()
    cursor.skip(b",").expect(start_of[_DURATION_LINE])
    dur = cursor.skip(b'\n    "dur": ').decimal()
    cursor.expect(start_of[_ARGS_LINE])
    cursor.skip(b'\n    ,\n    "args": {\n      "External id": ').skip_number()
    sequence, forward = np.full(len(first), MISSING), np.full(len(first), -1)
    # behind the record's number if shapes were not recorded
    cursor.backward_link(b',"Sequence number": ', sequence, forward)
    cursor.skip_either(b',"Record function id": ', b', "Record function id": ').skip_number()
    cursor.backward_link(b', "Sequence number": ', sequence, forward)
    closing = start_of[_CLOSING_LINE]
    inputs = cursor.inputs(closing, inputs_code)
    cursor.skip(_LAST_KEY).skip_number()
    cursor.expect(closing)
    cursor.skip(_CLOSING)
    cursor.expect(end)
    columns = {"label": label, "ts": ts, "dur": dur, "sequence_id": sequence, "forward": forward, "inputs": inputs}
    return columns, cursor.fits


def _joined(block: bytes, start: Ints, end: Ints, selected: Flags) -> bytes:
    """Return the selected events as a JSON list."""
    edges = np.flatnonzero(np.diff(selected, prepend=False, append=False))
    runs = zip(start[edges[::2]].tolist(), end[edges[1::2] - 1].tolist(), strict=True)
    # each ends in a comma, but the last of the block in the bracket of the list
    return b"[%b]" % b"".join([block[a:b] for a, b in runs])[:-1]


class _Text:
    """A block of text of which all positions can be compared at once."""

    def __init__(self, block: bytes) -> None:
        self.bytes = np.frombuffer(block, np.uint8)
        self._block = block
        self._words: Words = np.ndarray(len(block) - _WORD + 1, "<u8", block, strides=(1,))

    def word(self, at: Ints) -> Words:
        """Return eight bytes at each position as a number, the first byte as its lowest."""
        return self._words[at]

    def byte(self, at: Ints) -> Words:
        """Return the byte at each position."""
        return self._words[at] & np.uint64(0xFF)

    def contains(self, at: Ints, literal: bytes) -> Flags:
        """Flag the positions at which a literal begins."""
        flags = np.ones(len(at), np.bool_)
        for offset, word, mask in _words(literal):
            flags &= (self.word(at + offset) & mask if mask else self.word(at + offset)) == word
        return flags

    def digits(self, at: Ints) -> tuple[Words, Ints]:
        """Return the digits at each position, of up to eight, as a word with one in each byte, and their number."""
        word = self.word(at) ^ np.uint64(0x3030303030303030)
        other = ((word & np.uint64(0x7F7F7F7F7F7F7F7F)) + np.uint64(0x7676767676767676)) | word
        other &= np.uint64(0x8080808080808080)
        lowest = (other & (~other + np.uint64(1))).astype(np.float64)
        count = np.where(lowest > 0, (np.frexp(lowest)[1].astype(np.int64) - 1) >> 3, _WORD)
        return word, count

    def number(self, at: Ints) -> tuple[Ints, Ints]:
        """Return the number at each position and how many digits it has, up to eight."""
        # https://lemire.me/blog/2022/01/21/swar-explained-parsing-eight-digits/
        word, count = self.digits(at)
        # two shifts, since one by 64 bits has no defined result
        half = ((_WORD - count) * 4).astype(np.uint64)
        word = word << half << half
        word = (word * np.uint64(10) + (word >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
        word = (word * np.uint64(100) + (word >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
        word = (word * np.uint64(10_000) + (word >> np.uint64(32))) & np.uint64(0x00000000FFFFFFFF)
        return word.astype(np.int64), count

    def codes(self, start: Ints, end: Ints, read: TextReader) -> Ints:
        """Return the code of the text between each start and end, -1 if it has none; spans must not overlap."""
        if not len(start):
            return start
        offsets = np.column_stack([start, end]).ravel().astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._block)]
        spans = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
        encoded = spans.take(number_array(np.arange(0, len(offsets), 2))).dictionary_encode()
        codes = [read(text) for text in encoded.dictionary.to_pylist()]
        code: Ints = np.array([-1 if code is None else code for code in codes], np.int64)[to_numpy(encoded.indices)]
        return code


@lru_cache(maxsize=64)
def _words(literal: bytes) -> list[tuple[int, np.uint64, np.uint64 | None]]:
    """Return the words of a literal: offset, value, and the mask of a word that is longer than the literal."""
    if len(literal) < _WORD:
        mask = np.uint64((1 << 8 * len(literal)) - 1)
        return [(0, np.uint64(int.from_bytes(literal, "little")), mask)]
    offsets = [*range(0, len(literal) - _WORD, _WORD), len(literal) - _WORD]
    words = (literal[offset : offset + _WORD] for offset in offsets)
    return [(offset, np.uint64(int.from_bytes(w, "little")), None) for offset, w in zip(offsets, words, strict=True)]


@dataclass
class _Cursor:
    """A position in the text of each event, which moves behind what it reads."""

    text: _Text
    at: Ints
    fits: Flags
    """Which events have had the expected text so far."""

    def expect(self, position: Ints) -> None:
        """Require that everything up to a position has been read."""
        self.fits &= self.at == position

    def skip(self, literal: bytes) -> _Cursor:
        """Move behind a text that every event has."""
        self.fits &= self.text.contains(self.at, literal)
        self.at = self.at + len(literal)
        return self

    def skip_either(self, first: bytes, second: bytes) -> _Cursor:
        """Move behind one of two texts."""
        is_first = self.text.contains(self.at, first)
        if not is_first.all():
            self.fits &= is_first | self.text.contains(self.at, second)
        self.at = self.at + np.where(is_first, len(first), len(second))
        return self

    def number(self) -> Ints:
        """Read a whole number of up to eight digits."""
        value, count = self.text.number(self.at)
        self._move(count)
        return value

    def skip_number(self) -> None:
        """Move behind a whole number of up to eight digits."""
        self._move(self.text.digits(self.at)[1])

    def decimal(self) -> Ints:
        """Read a number with three decimals, in thousandths."""
        high, count = self.text.number(self.at)
        low, more = self.text.number(self.at + count)
        self._move(count + more)
        self.fits &= count + more <= _MOST_DIGITS
        thousandths, decimals = self.text.number(self.at + 1)
        self.fits &= (self.text.byte(self.at) == _POINT) & (decimals == _DECIMALS)
        self.at = self.at + 1 + decimals
        return (high * _POWERS[more] + low) * 1000 + thousandths

    def _move(self, digits: Ints) -> None:
        """Move behind a number, which JSON allows to begin with a zero only if it has no further digit."""
        is_zero = self.text.byte(self.at) == _ZERO
        self.fits &= (digits == 1) | ((digits > 0) & ~is_zero)
        self.at = self.at + digits

    def backward_link(self, key: bytes, sequence: Ints, forward: Ints) -> None:
        """Read sequence number and forward thread of the events that have them here."""
        rows = np.flatnonzero(self.text.contains(self.at, key))
        if not len(rows):
            return
        cursor = _Cursor(self.text, self.at[rows], self.fits[rows])
        sequence[rows] = cursor.skip(key).number()
        forward[rows] = cursor.skip(b', "Fwd thread id": ').number()
        self.at[rows], self.fits[rows] = cursor.at, cursor.fits

    def inputs(self, closing: Ints, read: TextReader) -> Ints:
        """Read everything up to the last member, which ends at `closing`."""
        codes = np.full(len(self.at), -1)
        rows = np.flatnonzero(self.fits & ~self.text.contains(self.at, _LAST_KEY))
        if not len(rows):
            return codes
        last = self._last_member(closing[rows])
        rows, last = rows[last > self.at[rows]], last[last > self.at[rows]]
        cursor = _Cursor(self.text, self.at[rows], self.fits[rows])
        codes[rows] = self.text.codes(cursor.skip(b", ").at, np.maximum(last, cursor.at), read)
        self.at[rows], self.fits[rows] = last, cursor.fits & (codes[rows] >= 0)
        return codes

    def _last_member(self, closing: Ints) -> Ints:
        """Return the position of the last key, before a number of up to eight digits that ends at `closing`."""
        start = closing
        for _ in range(_WORD):
            digit = self.text.byte(start - 1) - np.uint64(_ZERO)  # wraps below zero
            start = np.where(digit < _TEN, start - 1, start)
        return start - len(_LAST_KEY)
