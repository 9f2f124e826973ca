"""KinetoNormalizer: a Kineto trace, written by this program or any other, as events of the schema.

Works without torch. Left out are the running numbers of `args.LEFT_OUT`, the arrows of `rows.REDUNDANT_FLOWS`, the
span of `rows.WINDOW` with the marks of its ends, and the sort indices by which viewers order threads.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.collection import no_collection
from unified_profiler.model.foreign import reading
from unified_profiler.model.foreign_values import checked_events
from unified_profiler.model.schema import EventTable
from unified_profiler.spi import NativeCapture
from unified_profiler_torch.read.kineto import Header, looks_like_kineto, open_document
from unified_profiler_torch.read.lanes import process_names
from unified_profiler_torch.read.mapping import Mapping
from unified_profiler_torch.read.rows import Rows


class KinetoNormalizer:
    """Turns Kineto JSON, plain or gzip, into events."""

    def recognizes(self, path: Path) -> bool:
        """Say whether this file looks like a Kineto trace."""
        return looks_like_kineto(path)

    def normalize(self, capture: NativeCapture) -> EventTable:
        """Return all events of the capture; the document's other contents are the schema metadata `native`.

        Raises:
            TraceFormatError: The file is damaged, empty or of another kind.
        """
        if len(capture.files) != 1:
            msg = (
                f"A capture of torch is one Kineto file; found {len(capture.files)}: {[str(f) for f in capture.files]}."
            )
            raise TraceFormatError(msg)
        with reading(capture.files[0], expected="a Kineto trace"):
            header, rows = _load(capture.files[0])
            with_flops = bool(capture.details.get("flops") or header.get("with_flops"))
            mapping = Mapping(rows, header, capture.stop_ns, frames_tell_modules=not capture.details.get("modules"))
            table = checked_events(mapping.table(with_flops=with_flops))
            native = header | {"processes": process_names(rows.labels)}
            return table.replace_schema_metadata({b"native": msgspec.json.encode(native)})


def _load(path: Path) -> tuple[Header, Rows]:
    document, rows = open_document(path), Rows()
    try:
        with no_collection():
            for block in document.blocks:
                rows.add(block, path)
    except UnicodeDecodeError as error:
        msg = f"{path} holds text that is no UTF-8, in the arguments of an event: {error}"
        raise TraceFormatError(msg) from error
    return document.header, rows
