"""Escapes text so that it prints on one line, and writes numbers of items."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Escape characters that are not printable: newlines, control and text direction characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def counted(count: int, noun: str) -> str:
    """Return a number of items, with the noun in singular or plural: 1 step, 2 steps."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
