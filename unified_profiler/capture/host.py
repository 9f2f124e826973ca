"""What a run records of the process and of the machine that it ran on, besides the place in a job."""

from __future__ import annotations

import sys

from unified_profiler.masking import mask_command
from unified_profiler.model.text import storable


def command_line() -> tuple[str, ...]:
    """Return the command line of this process, with secrets masked."""
    return tuple(map(storable, mask_command(sys.argv)))
