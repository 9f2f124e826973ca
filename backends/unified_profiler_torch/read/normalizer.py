"""Converts a Kineto trace, recorded by this or any other program, to events of the schema, without torch.

Omitted are the serial numbers of `args.LEFT_OUT`, the arrows of `labels.REDUNDANT_FLOWS`, the span of `labels.WINDOW`
with the marks of its ends, and the indices by which viewers order threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.collection import no_collection
from unified_profiler.model.foreign import reading
from unified_profiler.model.foreign_values import checked_events
from unified_profiler.model.schema import EventTable
from unified_profiler.spi import NativeCapture
from unified_profiler_torch.read.columns import KinetoColumns
from unified_profiler_torch.read.events import KinetoEvents
from unified_profiler_torch.read.kineto import (
    EventStream,
    Header,
    InvalidJsonError,
    OtherLayoutError,
    looks_like_kineto,
    parse_document,
)
from unified_profiler_torch.read.lanes import process_names


class KinetoNormalizer:
    """Converts Kineto JSON, plain or gzip, to events."""

    def recognizes(self, path: Path) -> bool:
        """Return whether this file looks like a Kineto trace."""
        return looks_like_kineto(path)

    def normalize(self, capture: NativeCapture) -> EventTable:
        """Return all events of the capture, with the document's other contents as schema metadata `native`.

        Raises:
            TraceFormatError: The file is damaged, empty or of another kind.
        """
        if len(capture.files) != 1:
            msg = f"A torch capture is one Kineto file; found {len(capture.files)}: {[str(f) for f in capture.files]}."
            raise TraceFormatError(msg)
        path = capture.files[0]
        with reading(path, expected="a Kineto trace"), _utf8(path):
            header, events = _load(path)
            with_flops = bool(capture.details.get("flops") or header.get("with_flops"))
            from_frames = not capture.details.get("modules")
            columns = KinetoColumns(events, header, capture.stop_ns, modules_from_frames=from_frames)
            table = checked_events(columns.table(with_flops=with_flops))
            native = header | {"processes": process_names(events.metadata)}
            return table.replace_schema_metadata({b"native": msgspec.json.encode(native)})


def _load(path: Path) -> tuple[Header, KinetoEvents]:
    """Read a file block by block, or as a whole if it has another layout or if a block is not JSON by itself."""
    with no_collection():
        events, stream = KinetoEvents(), EventStream(path)
        try:
            for block in stream:
                events.add(block, path)
        except (OtherLayoutError, InvalidJsonError):
            events = KinetoEvents()
            header, blocks = parse_document(path)
            for block in blocks:
                events.add(block, path)
            return header, events
    return stream.header, events


@contextmanager
def _utf8(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        msg = f"{path} contains text that is not UTF-8, in the arguments of an event: {error}"
        raise TraceFormatError(msg) from error
