"""Makes text safe to print on one line."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Escape characters that would break a line or hide in it: newlines, control and direction characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
