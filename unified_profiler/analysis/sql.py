"""Loads the SQL query files of this package."""

from __future__ import annotations

from functools import cache
from importlib import resources

from unified_profiler.engine.contract import PackageQuery


def load(name: str, **names: str) -> PackageQuery:
    """Return the text of a query file.

    Args:
        name: The file, without its suffix.
        **names: The value of each `{placeholder}` in it: column names from a fixed list, never text of a user.
    """
    return PackageQuery(_text(name).format_map(names))


@cache
def _text(name: str) -> str:
    return resources.files("unified_profiler.analysis").joinpath(f"{name}.sql").read_text(encoding="utf-8")
