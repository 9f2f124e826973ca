"""Identifies the line of user code that makes a call."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import FrameType


def call_site(frame: FrameType | None, *, package: str) -> int:
    """Return an id of the nearest line outside a framework's package and this profiler."""
    root = _root_of(package)
    while frame is not None and (frame.f_code.co_filename.startswith(root) or _is_own(frame)):
        frame = frame.f_back
    return 0 if frame is None else hash((frame.f_code.co_filename, frame.f_code.co_firstlineno, frame.f_lineno))


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith("unified_profiler")


@functools.cache
def _root_of(package: str) -> str:
    return str(Path(sys.modules[package].__file__ or package).parent)
