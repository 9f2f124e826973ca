"""Mutations of bytes, of words and numbers in texts, and of JSON documents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

Mutation = Callable[[Random, bytes], bytes]

TOKENS = (
    *(b"0", b"-1", b"1", b"1.5", b"-0.0", b"1e308", b"1e999", b"-1e999", b"NaN", b"Infinity", b"-inf", b"nan"),
    *(b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808", b"4611686018427387904"),
    *(b"18446744073709551616", b"1" + b"0" * 400, b"9" * 5000, b"2147483648", b"32768", b"1e18", b"1e25"),
    *(b"null", b"true", b"false", b"[]", b"{}", b'""', b"{", b"[", b'"', b",", b";", b":", b"\n", b"\r\n", b"\t", b""),
    *(b"\x00", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"\xf0\x9f\x8e\x89", b"\xef\xbb\xbf"),
    *(b"..", b"../outside/secret", b"/dev/zero", b"/etc/passwd", b"%s%n", b"' OR 1=1 --", b"N/A", b"X" * 200_000),
    *(b"[" * 3000, b'{"a":' * 3000, b"[" * 3000 + b"]" * 3000, b'{"a":' * 1500 + b"1" + b"}" * 1500),
)
"""Words that break readers."""

_WORD = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|[A-Za-z_]+')
_MOST = 1 << 21


def mutate_bytes(rng: Random, data: bytes) -> bytes:
    """Change bytes without regard to what they mean."""
    return rng.choice(_BYTES)(rng, data)[:_MOST]


def mutate_words(rng: Random, data: bytes) -> bytes:
    """Change a word, a text in quotes or a number, and leave what is around it."""
    words = list(_WORD.finditer(data))
    if not words:
        return mutate_bytes(rng, data)
    word, other = rng.choice(words), rng.choice(words)
    new = rng.choice((rng.choice(TOKENS), other[0], b"", b'"' + rng.choice(TOKENS) + b'"', _nudged(rng, word[0])))
    return data[: word.start()] + new + data[word.end() :]


def mutate_lines(rng: Random, data: bytes) -> bytes:
    """Drop, repeat, swap or join lines, or change the fields of one."""
    lines = data.splitlines(keepends=True) or [b""]
    place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            del lines[place]
        case 1:
            lines[place] *= rng.choice((2, 50))
        case 2:
            lines[place], lines[other] = lines[other], lines[place]
        case 3:
            lines[place] = lines[place].rstrip(b"\r\n")
        case _:
            separator = rng.choice((b",", b";", b" ", b":"))
            fields = lines[place].split(separator)
            at = rng.randrange(len(fields))
            fields[at : at + 1] = rng.choice(([], [fields[at]] * 2, [rng.choice(TOKENS)], [b"", b""]))
            lines[place] = separator.join(fields)
    return b"".join(lines)


def mutate_json(rng: Random, data: bytes) -> bytes:
    """Change the type of a value, drop, repeat or add keys and elements, put in huge or deep values."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_words(rng, data)
    raw: list[bytes] = []
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        document = _changed(rng, document, raw)
    try:
        text = json.dumps(document, indent=rng.choice((None, 1)), ensure_ascii=rng.random() < 0.5)
    except (ValueError, RecursionError):
        return mutate_words(rng, data)
    encoded = text.encode("utf-8", "surrogatepass")
    for number, token in enumerate(raw):
        encoded = encoded.replace(_mark(number).join('""').encode(), token)
    return encoded[:_MOST]


def _mark(number: int) -> str:
    return f"@raw {number}@"


def _changed(rng: Random, document: Any, raw: list[bytes]) -> Any:
    """Change one value of a document; the nearer to the top, the likelier."""
    holder: Any = None
    key: Any = None
    here = document
    while isinstance(here, (dict, list)) and here and rng.random() < 0.85:
        holder, key = here, rng.choice(list(here)) if isinstance(here, dict) else rng.randrange(len(here))
        here = holder[key]
    if holder is None:
        return rng.choice((document, _value(rng, document, raw)))
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(rng.randrange(len(holder) + 1), here)
        case 1:
            holder[rng.choice((*holder, "new", ""))] = here
        case 2 if isinstance(holder, list):
            rng.shuffle(holder)
        case 2:
            holder[f"{key}\0" if rng.random() < 0.3 else str(key).upper()] = holder.pop(key)
        case _:
            holder[key] = _value(rng, here, raw)
    return document


def _value(rng: Random, old: Any, raw: list[bytes]) -> Any:
    """Return another value, often one of another type."""
    if rng.random() < 0.25:
        raw.append(rng.choice(TOKENS))
        return _mark(len(raw) - 1)
    plain = [None, True, 0, -1, 1, 3.25, -7.5, 1 << 31, 1 << 53, (1 << 63) - 1, 1 << 63, -(1 << 63) - 1, 10**400, 1e300]
    text = ["", "x", "\ud800", "\0", "0", "-1", "1e400", "é", "..", "/", "../outside/secret", "/dev/zero", "x" * 70000]
    deep: Any = old
    for _ in range(rng.choice((1, 3, 400))):
        deep = [deep] if rng.random() < 0.5 else {"a": deep}
    nudged = (
        [old + 1, old - 1, -old, old * 1000, str(old), float(old)] if type(old) is int and abs(old) < 1 << 62 else []
    )
    return rng.choice((*plain, *text, *nudged, *nudged, [], {}, [old], [old] * 300, {"a": old}, deep))


def _nudged(rng: Random, word: bytes) -> bytes:
    try:
        number = float(word)
        return str(rng.choice((number + 1, -number, number * 1e6, int(number) + 1, number / 3))).encode()
    except (ValueError, OverflowError):
        return word[::-1]


def _flip_bits(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _set_bytes(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] = rng.choice((0, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(changed)


def _cut(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _cut_start(rng: Random, data: bytes) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def _delete(rng: Random, data: bytes) -> bytes:
    start, end = _range(rng, data)
    return data[:start] + data[end:]


def _repeat(rng: Random, data: bytes) -> bytes:
    start, end = _range(rng, data)
    return data[:end] + data[start:end] * rng.choice((1, 1, 3, 40)) + data[end:]


def _move(rng: Random, data: bytes) -> bytes:
    start, end = _range(rng, data)
    rest = data[:start] + data[end:]
    to = rng.randrange(len(rest) + 1)
    return rest[:to] + data[start:end] + rest[to:]


def _insert(rng: Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice((rng.choice(TOKENS), rng.randbytes(rng.choice((1, 4, 64))))) + data[place:]


def _overwrite(rng: Random, data: bytes) -> bytes:
    start, end = _range(rng, data)
    return (
        data[:start]
        + rng.choice((bytes(end - start), b"\xff" * (end - start), rng.randbytes(end - start)))
        + data[end:]
    )


def _replace_all(rng: Random, data: bytes) -> bytes:
    return rng.choice((b"", b"\0" * 64, b"\n", rng.choice(TOKENS), rng.randbytes(200)))


def _range(rng: Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 4, 8, 30, 300, len(data))))


_BYTES: tuple[Mutation, ...] = (
    *(_flip_bits, _flip_bits, _set_bytes, _set_bytes, _cut, _cut_start, _delete, _delete),
    *(_repeat, _move, _insert, _insert, _overwrite, _replace_all),
)
