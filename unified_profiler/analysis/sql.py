"""Loads the SQL query files of this package."""

from __future__ import annotations

from importlib import resources


def load(name: str, **names: str) -> str:
    """Return the text of a query file.

    Args:
        name: The file, without its suffix.
        **names: The value of each `{placeholder}` in it: column names from a fixed list, never text of a user.
    """
    text = resources.files("unified_profiler.analysis").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    return text.format_map(names)
