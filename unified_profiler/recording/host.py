"""What a run records of the process and of the machine that it ran on, besides the place in a job."""

from __future__ import annotations

import sys
from functools import cache
from itertools import takewhile
from pathlib import Path

from unified_profiler.masking import mask_command
from unified_profiler.model.text import storable


@cache
def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """Return the model of the processor, None where it is not known.

    ARM processors say no name; implementer and part tell them apart as well.
    """
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            first = dict(_field(line) for line in takewhile(str.strip, lines))  # of all processors one will do
    except OSError:
        return None
    parts = [f"{name} {first[name]}" for name in ("CPU implementer", "CPU part") if name in first]
    return first.get("model name") or first.get("cpu model") or first.get("cpu") or ", ".join(parts) or None


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def command_line() -> tuple[str, ...]:
    """Return the command line of this process, with secrets masked."""
    return tuple(map(storable, mask_command(sys.argv)))
