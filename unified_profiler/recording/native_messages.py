"""Keeps routine messages of native profilers out of the terminal.

Native libraries write to the file descriptor of stderr, whatever `sys.stderr` is. While recorders start and stop, it is
a temporary file; afterward every line that is not routine is written to stderr. If this package logs at debug level,
all messages appear where they are written.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import BinaryIO

logger = logging.getLogger("unified_profiler")

_STDERR = 2
_lock = threading.Lock()
"""Held while stderr is a temporary file, by one thread of the process at a time."""
_originals: list[int] = []
"""The descriptor of the original stderr during that time."""


@contextmanager
def routine_messages_hidden(patterns: Iterable[str | None]) -> Iterator[None]:
    """Hide the lines that native code writes to stderr during the block and that match one of the patterns."""
    wanted = [f"(?:{pattern})" for pattern in patterns if pattern]
    if not wanted or logger.isEnabledFor(logging.DEBUG) or not _lock.acquire(blocking=False):
        yield
        return
    try:
        with ExitStack() as closing:
            closing.callback(_restore)  # whatever interrupts the next lines
            messages = _redirect(closing)
            try:
                yield
            finally:
                _restore()
                if messages is not None:
                    _write_others(messages, re.compile("|".join(wanted).encode()))
    finally:
        _lock.release()


def _redirect(closing: ExitStack) -> BinaryIO | None:
    """Make stderr a temporary file and return it; None if there is no stderr, or no room for a file."""
    with suppress(OSError):
        file: BinaryIO = closing.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  the caller closes it
        _flush()
        _originals.append(os.dup(_STDERR))
        os.dup2(file.fileno(), _STDERR)
        return file
    return None


def _restore() -> None:
    while _originals:
        _flush()
        os.dup2(_originals[-1], _STDERR)
        os.close(_originals.pop())


def _write_others(messages: BinaryIO, routine: re.Pattern[bytes]) -> None:
    with suppress(OSError):
        messages.seek(0)
        for line in messages:
            if not routine.match(line):
                os.write(_STDERR, line)


def _flush() -> None:
    with suppress(OSError, ValueError, AttributeError):  # stderr may be closed, or None
        sys.stderr.flush()


os.register_at_fork(after_in_child=_restore)
