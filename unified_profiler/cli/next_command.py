"""Names the next useful command below a result."""

from __future__ import annotations

import shlex


def next_command(key: str, *arguments: str, language: str) -> str:
    """Return the line that names a command and what it shows, such as `Where the time of each step went: ...`.

    Args:
        key: What the command shows.
        *arguments: The command and its arguments, without `unified-profiler`.
        language: The language of the line.
    """
    from unified_profiler.presentation.texts import render_text

    return render_text(f"next.{key}", {"command": shlex.join(["unified-profiler", *arguments])}, language=language)
