"""Mutations of protobuf messages that keep their lengths right, so that what is in them is looked at."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from tests.fuzz.mutate_text import TOKENS, mutate_bytes

_NUMBERS = (0, 1, 2, 127, 1 << 31, (1 << 31) - 1, 1 << 53, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 10**18, 5)
_DEEP = 200


class _Field(NamedTuple):
    number: int
    wire: int
    value: int | bytes


def mutate_protobuf(rng: Random, data: bytes) -> bytes:
    """Change, drop, repeat or move a field of the message or of one within it."""
    return _mutated(rng, data, depth=0)


def _mutated(rng: Random, data: bytes, *, depth: int) -> bytes:
    fields = _fields(data)
    if not fields:
        return rng.choice((mutate_bytes(rng, data), rng.choice(TOKENS)[:1000], _nested(data)))
    place = rng.randrange(len(fields))
    chosen = fields[place]
    if isinstance(chosen.value, bytes) and chosen.wire == 2 and depth < 12 and rng.random() < 0.8:
        fields[place] = chosen._replace(value=_mutated(rng, chosen.value, depth=depth + 1))
        return b"".join(map(_encoded, fields))
    match rng.randrange(7):
        case 0:
            del fields[place]
        case 1:
            fields[place:place] = [chosen] * rng.choice((1, 2, 300))
        case 2:
            rng.shuffle(fields)
        case 3:
            fields[place] = chosen._replace(number=rng.choice((1, 2, 3, 4, 5, 6, 7, 11, 1000)))
        case 4:
            fields[place] = _Field(chosen.number, 0, rng.choice(_NUMBERS))
        case 5:
            fields[place] = _Field(chosen.number, 2, rng.choice((_nested(data), rng.choice(TOKENS)[:1000], b"")))
        case _ if isinstance(chosen.value, int):
            fields[place] = chosen._replace(value=rng.choice((*_NUMBERS, chosen.value + 1, abs(chosen.value - 1))))
        case _:
            fields[place] = chosen._replace(value=mutate_bytes(rng, chosen.value))
    return b"".join(map(_encoded, fields))


def _nested(data: bytes) -> bytes:
    """Put a message into itself many times."""
    for _ in range(_DEEP):
        data = b"\x0a" + _varint(len(data)) + data
    return data


def _fields(data: bytes) -> list[_Field]:
    """Take a message apart; nothing for what is none."""
    found, place = [], 0
    try:
        while place < len(data):
            tag, place = _number(data, place)
            number, wire = tag >> 3, tag & 7
            if not number or wire not in {0, 1, 2, 5}:
                return []
            value: int | bytes
            if wire == 0:
                value, place = _number(data, place)
            else:
                size, place = _number(data, place) if wire == 2 else ({1: 8, 5: 4}[wire], place)
                value, place = data[place : place + size], place + size
            if place > len(data):
                return []
            found.append(_Field(number, wire, value))
    except IndexError:
        return []
    return found


def _encoded(field: _Field) -> bytes:
    head = _varint(field.number << 3 | field.wire)
    if isinstance(field.value, int):
        return head + _varint(field.value)
    return head + (_varint(len(field.value)) if field.wire == 2 else b"") + field.value


def _number(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128 or shift > 63:
            return number, place


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
