"""Decodes protobuf's wire format into columns: the fields of many messages at once, without the protobuf runtime.

The runtime creates a Python object for each message, and beside MindSpore, which switches it to its Python
implementation, it takes ten times as long. Reference: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unified_profiler.model.nesting import Ints
from unified_profiler.model.tree import Flags

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""
_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}

Words = npt.NDArray[np.uint64]

_FEW = 64
"""Below this number of messages a loop over their fields is faster than one numpy call for each step of decoding."""
_PADDING = 16
"""Zeros after the data, so that numbers near its end can be loaded in whole words."""
_LONGEST = 10
"""Bytes of the longest number."""

_STOP, _LOW, _ONES = (np.uint64(byte * 0x0101010101010101) for byte in (0x80, 0x7F, 0x01))
_FOLDS = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)
"""Join neighboring groups of 7, 14 and 28 bits."""


class WireError(ValueError):
    """The bytes are not a message."""


class Field(NamedTuple):
    """One field of a message."""

    number: int
    wire_type: int
    value: int
    """The number, the bits of one of a fixed size, or the size of bytes."""
    start: int
    end: int

    @property
    def signed(self) -> int:
        """The value as a signed number of 64 bits."""
        return self.value - (self.value >> 63 << 64)


def fields_of(message: bytes) -> list[Field]:
    """Decode one message, field by field.

    Raises:
        WireError: It is damaged.
    """
    tags, *columns = _scan(message + bytes(_PADDING), 0, len(message), ([], [], [], []))
    return [Field(tag >> 3, tag & 7, *rest) for tag, *rest in zip(tags, *columns, strict=True)]


class Ranges(NamedTuple):
    """The positions of a repeated field of bytes, ordered by message."""

    message: Ints
    start: Ints
    end: Ints

    def at(self, rows: Ints | Flags) -> Ranges:
        """Return some of them."""
        return Ranges(*(column[rows] for column in self))


class Buffer:
    """The bytes of a file or of a field in it."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self.data = data + bytes(_PADDING)
        self._bytes = np.frombuffer(self.data, np.uint8)
        self._words: Words = np.ndarray((self.size + 8,), "<u8", self.data, strides=(1,))

    def messages(self, start: Sequence[int] | Ints = (0,), end: Sequence[int] | Ints | None = None) -> Messages:
        """Decode the messages at some positions, by default all bytes as one message.

        Raises:
            WireError: One of them is damaged.
        """
        first = np.asarray(start, np.int64)
        last = np.asarray([self.size] if end is None else end, np.int64)
        return Messages(self, len(first), *_decode(self, first, last))

    def leading_integers(self, number: int, ranges: Ranges) -> Ints:
        """Return an integer field of messages that begin with it, -1 for other messages, without decoding the rest.

        Raises:
            WireError: A number has no end.
        """
        is_first = (self._bytes[ranges.start] == number << 3) & (ranges.start < ranges.end)
        value, _ = self.varints(np.where(is_first, ranges.start + 1, self.size))
        return np.where(is_first, value, -1)

    def texts(self, ranges: Ranges) -> list[bytes]:
        """Return the bytes at some positions."""
        data = self.data
        return [data[start:end] for start, end in zip(ranges.start.tolist(), ranges.end.tolist(), strict=True)]

    def varints(self, position: Ints) -> tuple[Ints, Ints]:
        """Decode the numbers at some positions; return them and the positions after them.

        Raises:
            WireError: A number has no end.
        """
        word = self._words[position]
        stop = ~word & _STOP
        mask = stop ^ (stop - np.uint64(1))  # all bits up to the first stop bit
        length = ((mask & _ONES) * _ONES >> np.uint64(56)).view(np.int64)
        value = word & mask & _LOW
        longest = np.uint64(length.max(initial=0))
        for low, high, shift in _FOLDS:
            if longest <= shift:
                break
            value = value & low | (value & high) >> shift
        long = np.flatnonzero(stop == 0)
        if len(long):
            value[long] |= self._ninth_bits(position[long], length, long)
        return value.view(np.int64), position + length

    def tags(self, position: Ints) -> tuple[Ints, Ints]:
        """Decode the tags of fields, most of which are one byte."""
        tag, after = self._bytes[position].astype(np.int64), position + 1
        long = np.flatnonzero(tag >= 0x80)
        if len(long):
            tag[long], after[long] = self.varints(position[long])
        return tag, after

    def fixed(self, position: Ints, wire_type: Ints) -> tuple[Ints, Ints]:
        """Return the bits of numbers of a fixed size, and the positions after them."""
        word, is_short = self._words[position], wire_type == FIXED32
        value = np.where(is_short, word & np.uint64(0xFFFFFFFF), word).view(np.int64)
        return value, position + np.where(is_short, _FIXED_SIZES[FIXED32], _FIXED_SIZES[FIXED64])

    def _ninth_bits(self, position: Ints, length: Ints, rows: Ints) -> Words:
        """Return the bits from the 57th on of numbers of nine or ten bytes, and correct their lengths."""
        ninth, tenth = (self._bytes[position + offset].astype(np.uint64) for offset in (8, 9))
        is_longest = ninth >= 0x80
        if np.any(is_longest & (tenth > 1)):
            msg = f"the number at byte {position[is_longest & (tenth > 1)][0]} has no end"
            raise WireError(msg)
        length[rows] = 9 + is_longest
        bits: Words = (ninth & np.uint64(0x7F)) << np.uint64(56)
        return bits | np.where(is_longest, tenth, np.uint64(0)) << np.uint64(63)


@dataclass(frozen=True)
class Messages:
    """The fields of messages of one type as columns, in the order of each message."""

    buffer: Buffer
    count: int
    message: Ints
    tag: Ints
    value: Ints
    start: Ints
    end: Ints

    def integers(self, number: int) -> Ints:
        """Return a field of each message, 0 where it is missing; unsigned numbers of 64 bits wrap."""
        values = np.zeros(self.count, np.int64)
        rows = self._rows(number, VARINT)
        values[self.message[rows]] = self.value[rows]
        return values

    def ranges(self, number: int) -> Ranges:
        """Return the positions of a repeated field."""
        rows = self._rows(number, BYTES)
        owner = self.message[rows]
        if self.count > 1 and np.any(owner[1:] < owner[:-1]):
            rows = rows[np.argsort(owner, kind="stable")]
        return Ranges(self.message[rows], self.start[rows], self.end[rows])

    def last_ranges(self, number: int) -> Ranges:
        """Return the position of a field of each message, an empty one where it is missing."""
        rows = self._rows(number, BYTES)
        positions = np.zeros((2, self.count), np.int64)
        positions[:, self.message[rows]] = self.start[rows], self.end[rows]
        return Ranges(np.arange(self.count), *positions)

    def texts(self, number: int) -> list[bytes]:
        """Return a field of each message, empty where it is missing."""
        return self.buffer.texts(self.last_ranges(number))

    def children(self, number: int) -> tuple[Ints, Messages]:
        """Decode the messages in a repeated field; return the message that contains each, and them.

        Raises:
            WireError: One of them is damaged.
        """
        owner, start, end = self.ranges(number)
        return owner, self.buffer.messages(start, end)

    def child(self, number: int) -> Messages:
        """Decode the message in a field of each message; a missing one is empty.

        Raises:
            WireError: One of them is damaged.
        """
        _, start, end = self.last_ranges(number)
        return self.buffer.messages(start, end)

    def _rows(self, number: int, wire_type: int) -> Ints:
        return np.flatnonzero(self.tag == (number << 3 | wire_type))


def _decode(buffer: Buffer, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Decode one field of every message at a time, and the last few messages one by one."""
    if len(start) and (start.min() < 0 or end.max() > buffer.size):
        msg = "a message ends after the data"
        raise WireError(msg)
    parts = []
    active = np.flatnonzero(start < end)
    position, end = start[active], end[active]
    while len(active) >= _FEW:
        tag, value, begin, after = _next_fields(buffer, position, end)
        parts.append((active, tag, value, begin, after))
        going_on = np.flatnonzero(after < end)
        active, position, end = active[going_on], after[going_on], end[going_on]
    parts.append(_scan_all(buffer.data, active, position, end))
    message, tag, value, begin, after = map(np.concatenate, zip(*parts, strict=True))
    return message, tag, value, begin, after


def _next_fields(buffer: Buffer, position: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Decode one field of each message; return tag, value, and the positions where the content begins and ends."""
    tag, position = buffer.tags(position)
    wire_type = tag & 7
    is_bytes, is_varint = wire_type == BYTES, wire_type == VARINT
    fixed = np.flatnonzero(~(is_bytes | is_varint))
    number_at = position.copy() if len(fixed) else position
    number_at[fixed] = buffer.size  # there is a 0: the bytes of other values need not be a number
    value, after = buffer.varints(number_at)
    begin = np.where(is_bytes, after, position)
    is_valid = (tag > 7) & (is_varint | (value >= 0) & (value <= end - after))
    after = np.where(is_bytes, after + value, after)
    if len(fixed):
        value[fixed], after[fixed] = buffer.fixed(position[fixed], wire_type[fixed])
        is_valid[fixed] = (tag[fixed] > 7) & np.isin(wire_type[fixed], list(_FIXED_SIZES))
    damaged = np.flatnonzero(~is_valid | (after > end))
    if len(damaged):
        raise _damage(int(position[damaged[0]]))
    return tag, value, begin, after


Scan = tuple[list[int], list[int], list[int], list[int]]
"""Tags, values, and the positions where contents begin and end."""


def _scan(data: bytes, position: int, end: int, into: Scan) -> Scan:
    """Decode the fields of one message, one after the other."""
    tags, values, begins, ends = into
    while position < end:
        tag = data[position]
        position += 1
        if tag >= 0x80:
            tag, position = _varint(data, position - 1)
        wire_type = tag & 7
        begin, value = position, 0
        if wire_type in (BYTES, VARINT):
            value = data[position]
            position += 1
            if value >= 0x80:
                if (second := data[position]) < 0x80:  # as in `_varint`, without a call: most messages have this size
                    value, position = value & 0x7F | second << 7, position + 1
                else:
                    value, position = _varint(data, position - 1)
            if wire_type == BYTES:
                begin = position
                position += value
        elif size := _FIXED_SIZES.get(wire_type):
            position += size
            value = int.from_bytes(data[begin:position], "little")
        else:
            raise _damage(begin)
        if tag < 8 or position > end:
            raise _damage(begin)
        tags.append(tag)
        values.append(value)
        begins.append(begin)
        ends.append(position)
    return into


def _scan_all(data: bytes, message: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Decode messages one by one."""
    scan: Scan = ([], [], [], [])
    counts = [len(_scan(data, *bounds, scan)[0]) for bounds in zip(start.tolist(), end.tolist(), strict=True)]
    tags, values, begins, ends = (np.array(column, np.uint64).view(np.int64) for column in scan)
    return np.repeat(message, np.diff([0, *counts])), tags, values, begins, ends


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """Decode a number; return it and the position after it."""
    if (second := data[start + 1]) < 0x80:  # most numbers of several bytes have two
        return data[start] & 0x7F | second << 7, start + 2
    value = shift = 0
    for position in range(start, start + _LONGEST):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if value >> 64:
                break
            return value, position + 1
    msg = f"the number at byte {start} has no end"
    raise WireError(msg)


def _damage(position: int) -> WireError:
    return WireError(f"the field at byte {position} is damaged or cut off")
