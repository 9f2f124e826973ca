"""Draws what commands print in a terminal, with its colors, as SVG."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

WIDTH = 110
_FONTS = re.compile(r"@font-face \{\{.*?\}\}", re.DOTALL)
"""Fonts from the Internet, without which the drawing shows that of the reader's system."""


def picture(commands: list[str], folder: Path) -> bytes:
    """Return a drawing of commands of this package and of what they print."""
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    for command in commands:
        console.print(Text.assemble(("$ ", "bold green"), (f"unified-profiler {command}", "bold")))
        console.print(Text.from_ansi(_printed(command, folder)))
    form = _FONTS.sub("", CONSOLE_SVG_FORMAT)
    return console.export_svg(title="unified-profiler", code_format=form, unique_id="terminal").encode()


def _printed(command: str, folder: Path) -> str:
    """Return the output of a command in a terminal, with its escape sequences."""
    terminal, end = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    arguments = [sys.executable, "-m", "unified_profiler", *shlex.split(command)]
    process = subprocess.Popen(arguments, cwd=folder, env=environment, stdout=end, stderr=subprocess.DEVNULL)  # noqa: S603
    os.close(end)
    parts = []
    while part := _read(terminal):
        parts.append(part)
    os.close(terminal)
    process.wait()
    return b"".join(parts).decode().replace("\r\n", "\n").rstrip("\n") + "\n"


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux reports the end of the program like this
        return b""
