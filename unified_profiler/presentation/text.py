"""Escapes text so that it prints on one line."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Escape characters that are not printable: newlines, control and text direction characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
