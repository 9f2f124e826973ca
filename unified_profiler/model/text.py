"""Makes any Python string storable as UTF-8."""

from __future__ import annotations


def storable(text: str) -> str:
    r"""Return the text with lone surrogates, which UTF-8 cannot represent, escaped as `\udXXX`."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
