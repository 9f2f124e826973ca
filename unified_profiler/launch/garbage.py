"""Spares the garbage collector searches in vain, which take CPU time from a script and from the tables after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def older_objects_spared() -> Iterator[None]:
    """Let collections not look through the objects that exist already; afterwards they do again."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def no_collections() -> Iterator[None]:
    """Make no collections, for work that leaves no garbage, such as imports."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
