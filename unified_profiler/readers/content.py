"""Detects the kind of a file from its first bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.foreign import first_bytes

_OPENING = 1 << 16
_PARQUET = b"PAR1"
_OWN_JSON = re.compile(rb'\s*\{\s*"unified_profiler"\s*:')


@dataclass(frozen=True)
class Opening:
    """The first bytes of a file, decompressed."""

    path: Path
    start: bytes

    @property
    def is_parquet(self) -> bool:
        """Whether it is Parquet, by content or by name."""
        return self.start.startswith(_PARQUET) or self.path.suffix == ".parquet"

    @property
    def is_own_json(self) -> bool:
        """Whether it is Chrome JSON that this package wrote."""
        return _OWN_JSON.match(self.start) is not None

    @property
    def is_json(self) -> bool:
        """Whether it looks like any JSON array or object."""
        return self.start.lstrip()[:1] in {b"{", b"["}


def read_opening(path: Path) -> Opening:
    """Read the first bytes of a file.

    Raises:
        TraceFormatError: It cannot be read, is empty, or is damaged gzip.
    """
    start = first_bytes(path, _OPENING)
    if not start.strip():
        msg = f"{path} is empty. The program that wrote it may have been stopped too early; record again."
        raise TraceFormatError(msg)
    return Opening(path, start)
