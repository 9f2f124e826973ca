"""Making any Python string fit for a table of UTF-8."""

from __future__ import annotations


def storable(text: str) -> str:
    r"""Return the text unchanged, or with lone surrogates, which UTF-8 cannot hold, spelled out as `\udXXX`."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
