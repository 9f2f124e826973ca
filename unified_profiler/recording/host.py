"""Describes the processor and the command line of the current process for the run manifest."""

from __future__ import annotations

import sys
from functools import cache
from itertools import takewhile
from pathlib import Path

from unified_profiler.masking import mask_command
from unified_profiler.model.text import storable

_KERNEL = "kernel_launcher.py"
"""End of the names of the programs that execute notebooks, of Jupyter and of Colab."""


@cache
def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """Return the model of the processor, None if it is unknown.

    ARM processors have no name in this file; implementer and part identify them.
    """
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            fields = [line.partition(":") for line in takewhile(str.strip, lines)]  # of the first processor
    except OSError:
        return None
    first = {name.strip(): value.strip() for name, _, value in fields}
    parts = [f"{name} {first[name]}" for name in ("CPU implementer", "CPU part") if name in first]
    return first.get("model name") or first.get("cpu model") or first.get("cpu") or ", ".join(parts) or None


def command_line() -> tuple[str, ...]:
    """Return the command line of this process, with secrets masked; it is empty in a kernel, which has its own."""
    if any(word.endswith(_KERNEL) for word in sys.argv[:1]):
        return ()
    return tuple(map(storable, mask_command(sys.argv)))
