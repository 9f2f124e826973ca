"""Writes blocks of a file on a second thread while the next block is being made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


def write_blocks(blocks: Iterable[Any], write: Callable[[Any], object]) -> None:
    """Write blocks in their order. Never more than two of them are in memory.

    Compressing and writing release the interpreter lock, so that they cost hardly any time beside making the blocks.

    Args:
        blocks: The blocks, which are made one after the other.
        write: Writes one block; what it raises is raised here.
    """
    writing: Future[object] | None = None
    with ThreadPoolExecutor(1, thread_name_prefix="unified_profiler export") as thread:
        for block in blocks:
            if writing is not None:
                writing.result()
            writing = _submit(thread, write, block)
        if writing is not None:
            writing.result()


def _submit(thread: ThreadPoolExecutor, write: Callable[[Any], object], block: Any) -> Future[object] | None:
    try:
        return thread.submit(write, block)
    except RuntimeError:  # no thread can be started while the interpreter exits
        write(block)
        return None
