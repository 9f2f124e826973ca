"""Reading Kineto's JSON: bytes in, the document's header and blocks of decoded events out.

Knows the layout of the file and how Kineto breaks it; knows nothing of the event schema.
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

_BLOCK = 1 << 20  # bytes decoded at once: what comes of them still fits into the cache of a processor
_OPENING = re.compile(rb'"traceEvents"\s*:\s*\[')
_SEPARATOR = b"\n  },\n  {"
_CLOSING = b"\n  }\n  ]"
_SNIFF = 1 << 16
_MARKS = (b'"schemaVersion"', b'"deviceProperties"', b'"baseTimeNanoseconds"', b'"External id"', b'"PyTorch Profiler')
_NAME_LINE = re.compile(
    rb'("name": ")((?:(?!"name": ").)*)(",\n    "pid": |", "(?:pid": (?:-?\d+|"[^"\n]*"), "tid": |ph": "[iM]"))'
)
"""A name ends before the next one: otherwise a long line of many names would be looked through once for each."""
_BAD_TEXT = (msgspec.DecodeError, UnicodeDecodeError)
_NOT_A_NUMBER = re.compile(rb"(\": )(-?(?:inf|nan|NaN|Infinity))(?=[\s,}])")


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`; its args stay as they are in the file."""

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
    """A Kineto file: everything but the events, and the events' text."""

    path: Path
    header: Header
    blocks: tuple[bytes | memoryview, ...]
    """Pieces of the event array, without brackets and without the commas between the pieces."""


def looks_like_kineto(path: Path) -> bool:
    """Say from the first bytes whether this is a Kineto trace, plain or gzip."""
    head = peek_bytes(path, _SNIFF)
    return head.lstrip()[:1] in {b"{", b"["} and any(mark in head for mark in _MARKS)


def open_document(path: Path) -> Document:
    """Read a Kineto file and find its events.

    Raises:
        TraceFormatError: It cannot be read, is empty, truncated or no Kineto trace.
    """
    data = read_bytes(path)
    if not data or data.isspace():
        msg = f"{path} is empty; expected a Kineto trace. Was the profiled program killed while writing it?"
        raise TraceFormatError(msg)
    return _split(path, data) or _parse(path, data)


def decode_block(block: bytes, decoder: msgspec.json.Decoder[Any], path: Path) -> Any:
    """Decode a list of events, repairing what Kineto did not write as JSON.

    Raises:
        TraceFormatError: It is no JSON, even so.
        msgspec.ValidationError: It is JSON of another shape than the decoder's.
    """
    try:
        return decoder.decode(block)
    except msgspec.ValidationError:
        raise
    except _BAD_TEXT as error:
        repaired = repair(block)
        if repaired == block:
            raise _broken(path, block, error) from error
    try:
        return decoder.decode(repaired)
    except msgspec.ValidationError:
        raise
    except _BAD_TEXT as error:
        raise _broken(path, repaired, error) from error


def repair(text: bytes) -> bytes:
    """Escape what Kineto leaves unescaped in names, quotes above all, and quote the numbers that JSON has not."""
    return _NOT_A_NUMBER.sub(rb'\1"\2"', _NAME_LINE.sub(_escape, text))


def _escape(found: re.Match[bytes]) -> bytes:
    before, name, after = found.groups()
    try:
        msgspec.json.decode(b'"' + name + b'"')
    except _BAD_TEXT:
        name = msgspec.json.encode(name.decode("utf-8", "replace"))[1:-1]
    return before + name + after


def _split(path: Path, data: bytes) -> Document | None:
    """Cut the file in Kineto's own layout, or return None where it has another one."""
    opening, end = _OPENING.search(data, 0, 1 << 24), data.rfind(_CLOSING)
    if opening is None or end < opening.end():
        return None
    end += len(b"\n  }")
    try:
        header = msgspec.json.decode(data[: opening.end()] + data[end:], type=Header)
    except _BAD_TEXT:
        return None
    header.pop("traceEvents")
    return Document(path, header, tuple(_pieces(data, opening.end(), end)))


def _pieces(data: bytes, start: int, end: int) -> Iterator[memoryview]:
    view = memoryview(data)
    while start < end:
        cut = data.find(_SEPARATOR, start + _BLOCK, end)
        stop = end if cut < 0 else cut + len(b"\n  }")
        yield view[start:stop]
        start = stop + len(b",")


def _parse(path: Path, data: bytes) -> Document:
    """Find the events in a file of any layout: object form or bare array."""
    try:
        document = _sections(data)
    except _BAD_TEXT as error:
        raise _broken(path, data, error) from error
    events = document.pop("traceEvents", None)
    if events is None or bytes(events)[:1] != b"[":
        msg = f"{path} is JSON, but no Kineto trace: it has no list `traceEvents`. Its keys: {sorted(document)[:10]}."
        raise TraceFormatError(msg)
    header = {key: msgspec.json.decode(value) for key, value in document.items()}
    inner = bytes(events)[1:-1]
    return Document(path, header, (inner,) if inner.strip() else ())


def _sections(data: bytes) -> dict[str, msgspec.Raw]:
    if data.lstrip()[:1] == b"[":
        return {"traceEvents": msgspec.json.decode(data, type=msgspec.Raw)}
    try:
        return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return {}
    except _BAD_TEXT:
        repaired = repair(data)
        if repaired == data:
            raise
        return msgspec.json.decode(repaired, type=dict[str, msgspec.Raw])


def _broken(path: Path, text: bytes, error: Exception) -> TraceFormatError:
    where = re.search(r"byte (\d+)", str(error))
    place = int(where.group(1)) if where else len(text)
    excerpt = text[max(0, place - 60) : place + 20].decode("utf-8", "replace")
    reason = "ends too early: it is truncated" if "truncated" in str(error) else f"is no valid JSON: {error}"
    return TraceFormatError(
        f"{path} {reason}. Expected a Kineto trace; the trouble is near {excerpt!r}. Record it again."
    )
