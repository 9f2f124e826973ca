"""Reads TOML: Python 3.11 and newer have a parser of their own, 3.10 uses `tomli`."""

from __future__ import annotations

import sys
from importlib import resources
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TomlError = tomllib.TOMLDecodeError


def parse_toml(text: str) -> dict[str, Any]:
    """Parse the text of a TOML file.

    Raises:
        TomlError: It is not TOML.
    """
    table: dict[str, Any] = tomllib.loads(text)
    return table


def packaged_toml(package: str, *path: str) -> dict[str, Any]:
    """Parse a TOML file that is shipped in a package."""
    return parse_toml(resources.files(package).joinpath(*path).read_text(encoding="utf-8"))
