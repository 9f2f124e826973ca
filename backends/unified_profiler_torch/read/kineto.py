"""Reads Kineto's JSON files: separates the header from the events and repairs invalid JSON that Kineto writes.

A file in Kineto's own layout is read in blocks and never held whole: the memory for it costs more than decoding it.

The event schema is not used here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.foreign import peek_bytes, read_bytes, read_chunks
from unified_profiler_torch.read.times import ZERO

Header = dict[str, Any]

_BLOCK = 1 << 21
"""Bytes read at once: of 128 KB to 16 MB, blocks of 2 and 4 MB were read in the least time."""
_LONGEST_EVENT = 1 << 20
"""Bytes without a border between two events, or before the first one, that Kineto's own layout may have."""
_OPENING = re.compile(rb'"traceEvents"\s*:\s*\[')
_EVENT_END = b"\n  }"
_SEPARATOR = _EVENT_END + b",\n  {"
_CLOSING = _EVENT_END + b"\n  ]"
_SNIFF_BYTES = 1 << 16
_KEYS = (b'"schemaVersion"', b'"deviceProperties"', b'"baseTimeNanoseconds"', b'"External id"', b'"PyTorch Profiler')
_NAME_LINE = re.compile(
    rb'("name": ")((?:(?!"name": ").)*)(",\n    "pid": |", "(?:pid": (?:-?\d+|"[^"\n]*"), "tid": |ph": "[iM]"))'
)
"""A name must not contain the next one: otherwise a long line with many names would be scanned once per name."""
_EVENTS_PER_BLOCK = 1 << 11
"""Events decoded at once in files of other layouts: of 512 to 16384, 1024 to 4096 were read in the least time."""
_RAW_EVENTS = msgspec.json.Decoder(list[msgspec.Raw])
_SECTIONS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BAD_TEXT = (msgspec.DecodeError, UnicodeDecodeError)
_NOT_A_NUMBER = re.compile(rb"(\": )(-?(?:inf|nan|NaN|Infinity))(?=[\s,}])")


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`, with undecoded times and args."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: msgspec.Raw = ZERO
    dur: msgspec.Raw = ZERO
    args: msgspec.Raw = msgspec.Raw(b"{}")
    id: int | str | None = None


class OtherLayoutError(Exception):
    """A file is not in Kineto's own layout; it may still be a trace, or damaged."""


class InvalidJsonError(TraceFormatError):
    """A file, or a block of its events, is not JSON even after repair."""


@dataclass
class EventStream:
    """A file in Kineto's own layout, which indents every event by two spaces; it is read while iterating."""

    path: Path
    header: Header = field(default_factory=dict)
    """Everything but the events, part of which stands behind them: complete at the end of the iteration."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield JSON lists of events.

        Raises:
            OtherLayoutError: The file has another layout.
            TraceFormatError: It cannot be read.
        """
        chunks = read_chunks(self.path, _BLOCK)
        before, rest = _opening(chunks)
        for chunk in chunks:
            border = chunk.rfind(_SEPARATOR)
            if border < 0:
                rest = _joined(rest, chunk)
                continue
            end = border + len(_EVENT_END)
            yield b"".join((b"[", rest, memoryview(chunk)[:end], b"]"))
            rest = chunk[end + len(b",") :]
        end = rest.rfind(_CLOSING) + len(_EVENT_END)
        if end < len(_EVENT_END):
            raise OtherLayoutError
        yield b"[%b]" % rest[:end]
        self.header = _header(before + rest[end:])


def _opening(chunks: Iterator[bytes]) -> tuple[bytes, bytes]:
    """Return the bytes up to the bracket before the first event, and those behind it as far as they have been read."""
    data = b""
    for chunk in chunks:
        data = _joined(data, chunk)
        if opening := _OPENING.search(data):
            return data[: opening.end()], data[opening.end() :]
    raise OtherLayoutError


def _joined(rest: bytes, chunk: bytes) -> bytes:
    if len(rest) > _LONGEST_EVENT:
        raise OtherLayoutError
    return rest + chunk


def _header(text: bytes) -> Header:
    try:
        header: Header = msgspec.json.decode(text, type=Header)
    except _BAD_TEXT as error:
        raise OtherLayoutError from error
    header.pop("traceEvents")
    return header


def looks_like_kineto(path: Path) -> bool:
    """Return whether the first bytes are those of a Kineto trace, plain or gzip."""
    head = peek_bytes(path, _SNIFF_BYTES)
    return head.lstrip()[:1] in {b"{", b"["} and any(key in head for key in _KEYS)


def parse_document(path: Path) -> tuple[Header, Iterator[bytes]]:
    """Read a file of any layout, an object or a bare list; return its header and JSON lists of its events.

    Raises:
        TraceFormatError: It cannot be read, is empty or truncated, or is not a Kineto trace.
    """
    data = read_bytes(path)
    if not data or data.isspace():
        msg = f"{path} is empty; expected a Kineto trace. Was the profiled program killed while writing it?"
        raise TraceFormatError(msg)
    try:
        document = _sections(data)
    except _BAD_TEXT as error:
        raise _invalid_json(path, data, error) from error
    events = memoryview(document.pop("traceEvents", msgspec.Raw()))
    if events[:1].tobytes() != b"[":
        msg = f"{path} is JSON but not a Kineto trace: it has no list `traceEvents`. Its keys: {sorted(document)[:10]}."
        raise TraceFormatError(msg)
    return {key: msgspec.json.decode(value) for key, value in document.items()}, _blocks(events)


def _blocks(events: memoryview) -> Iterator[bytes]:
    """Divide a JSON list of events into parts, which take less time to decode one by one than the whole."""
    texts = _RAW_EVENTS.decode(events)
    for start in range(0, max(len(texts), 1), _EVENTS_PER_BLOCK):
        yield b"[%b]" % b",".join(texts[start : start + _EVENTS_PER_BLOCK])


def decode_block(block: bytes, decoder: msgspec.json.Decoder[Any], path: Path) -> Any:
    """Decode a list of events, repairing invalid JSON.

    Raises:
        InvalidJsonError: It is not valid JSON even after repair.
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


def _sections(data: bytes) -> dict[str, msgspec.Raw]:
    if data.lstrip()[:1] == b"[":
        return {"traceEvents": msgspec.json.decode(data, type=msgspec.Raw)}
    try:
        sections: dict[str, msgspec.Raw] = _decode(data, _SECTIONS)
    except msgspec.ValidationError:
        return {}
    return sections


def _invalid_json(path: Path, data: bytes, error: Exception) -> InvalidJsonError:
    match = re.search(r"byte (\d+)", str(error))
    offset = int(match.group(1)) if match else len(data)
    excerpt = data[max(0, offset - 60) : offset + 20].decode("utf-8", "replace")
    reason = "is truncated" if "truncated" in str(error) else f"is not valid JSON: {error}"
    return InvalidJsonError(f"{path} {reason}. Expected a Kineto trace; the error is at {excerpt!r}. Record it again.")
