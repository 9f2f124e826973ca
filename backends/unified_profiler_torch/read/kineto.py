"""Reads Kineto's JSON files: splits the header from blocks of events and repairs invalid JSON that Kineto writes.

The event schema is not used here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.foreign import peek_bytes, read_bytes

Header = dict[str, Any]

_BLOCK = 1 << 20
"""Bytes decoded at once; the result still fits into a processor's cache."""
_OPENING = re.compile(rb'"traceEvents"\s*:\s*\[')
_SEPARATOR = b"\n  },\n  {"
_CLOSING = b"\n  }\n  ]"
_SNIFF_BYTES = 1 << 16
_KEYS = (b'"schemaVersion"', b'"deviceProperties"', b'"baseTimeNanoseconds"', b'"External id"', b'"PyTorch Profiler')
_NAME_LINE = re.compile(
    rb'("name": ")((?:(?!"name": ").)*)(",\n    "pid": |", "(?:pid": (?:-?\d+|"[^"\n]*"), "tid": |ph": "[iM]"))'
)
"""A name must not contain the next one: otherwise a long line with many names would be scanned once per name."""
_SECTIONS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BAD_TEXT = (msgspec.DecodeError, UnicodeDecodeError)
_NOT_A_NUMBER = re.compile(rb"(\": )(-?(?:inf|nan|NaN|Infinity))(?=[\s,}])")


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`, with undecoded args."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: msgspec.Raw = msgspec.Raw(b"{}")
    id: int | str | None = None


@dataclass(frozen=True)
class Document:
    """A Kineto file: the decoded header and the undecoded events."""

    path: Path
    header: Header
    blocks: tuple[bytes | memoryview, ...]
    """Parts of the event array, without brackets and without the commas between the parts."""


def looks_like_kineto(path: Path) -> bool:
    """Return whether the first bytes are those of a Kineto trace, plain or gzip."""
    head = peek_bytes(path, _SNIFF_BYTES)
    return head.lstrip()[:1] in {b"{", b"["} and any(key in head for key in _KEYS)


def open_document(path: Path) -> Document:
    """Read a Kineto file and find its events.

    Raises:
        TraceFormatError: It cannot be read, is empty or truncated, or is not a Kineto trace.
    """
    data = read_bytes(path)
    if not data or data.isspace():
        msg = f"{path} is empty; expected a Kineto trace. Was the profiled program killed while writing it?"
        raise TraceFormatError(msg)
    return _split(path, data) or _parse(path, data)


def decode_block(block: bytes, decoder: msgspec.json.Decoder[Any], path: Path) -> Any:
    """Decode a list of events, repairing invalid JSON.

    Raises:
        TraceFormatError: It is not valid JSON even after repair.
        msgspec.ValidationError: It is JSON of another type than the decoder's.
    """
    try:
        return _decode(block, decoder)
    except msgspec.ValidationError:
        raise
    except _BAD_TEXT as error:
        raise _invalid_json(path, repair(block), error) from error


def _decode(data: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except _BAD_TEXT:
        return decoder.decode(repair(data))


def repair(data: bytes) -> bytes:
    """Escape the names, where Kineto leaves mainly quotes unescaped, and quote numbers that JSON does not allow."""
    return _NOT_A_NUMBER.sub(rb'\1"\2"', _NAME_LINE.sub(_escape, data))


def _escape(match: re.Match[bytes]) -> bytes:
    before, name, after = match.groups()
    try:
        msgspec.json.decode(b'"' + name + b'"')
    except _BAD_TEXT:
        name = msgspec.json.encode(name.decode("utf-8", "replace"))[1:-1]
    return before + name + after


def _split(path: Path, data: bytes) -> Document | None:
    """Split a file in Kineto's own layout; return None for any other layout."""
    opening, end = _OPENING.search(data, 0, 1 << 24), data.rfind(_CLOSING)
    if opening is None or end < opening.end():
        return None
    end += len(b"\n  }")
    try:
        header = msgspec.json.decode(data[: opening.end()] + data[end:], type=Header)
    except _BAD_TEXT:
        return None
    header.pop("traceEvents")
    return Document(path, header, tuple(_blocks(data, opening.end(), end)))


def _blocks(data: bytes, start: int, end: int) -> Iterator[memoryview]:
    view = memoryview(data)
    while start < end:
        separator = data.find(_SEPARATOR, start + _BLOCK, end)
        stop = end if separator < 0 else separator + len(b"\n  }")
        yield view[start:stop]
        start = stop + len(b",")


def _parse(path: Path, data: bytes) -> Document:
    """Find the events in a file of any layout: an object or a bare array."""
    try:
        document = _sections(data)
    except _BAD_TEXT as error:
        raise _invalid_json(path, data, error) from error
    events = document.pop("traceEvents", None)
    if events is None or bytes(events)[:1] != b"[":
        msg = f"{path} is JSON but not a Kineto trace: it has no list `traceEvents`. Its keys: {sorted(document)[:10]}."
        raise TraceFormatError(msg)
    header = {key: msgspec.json.decode(value) for key, value in document.items()}
    inner = bytes(events)[1:-1]
    return Document(path, header, (inner,) if inner.strip() else ())


def _sections(data: bytes) -> dict[str, msgspec.Raw]:
    if data.lstrip()[:1] == b"[":
        return {"traceEvents": msgspec.json.decode(data, type=msgspec.Raw)}
    try:
        sections: dict[str, msgspec.Raw] = _decode(data, _SECTIONS)
    except msgspec.ValidationError:
        return {}
    return sections


def _invalid_json(path: Path, data: bytes, error: Exception) -> TraceFormatError:
    match = re.search(r"byte (\d+)", str(error))
    offset = int(match.group(1)) if match else len(data)
    excerpt = data[max(0, offset - 60) : offset + 20].decode("utf-8", "replace")
    reason = "is truncated" if "truncated" in str(error) else f"is not valid JSON: {error}"
    return TraceFormatError(f"{path} {reason}. Expected a Kineto trace; the error is at {excerpt!r}. Record it again.")
