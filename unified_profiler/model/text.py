"""Making any Python string fit for a table of UTF-8, and for the eyes of people."""

from __future__ import annotations


def storable(text: str) -> str:
    r"""Return the text unchanged, or with lone surrogates, which UTF-8 cannot hold, spelled out as `\udXXX`."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: str) -> str:
    """Spell out what would break the line or hide in it: newlines, control and direction characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
