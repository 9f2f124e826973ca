"""Matches API calls of different frameworks: by common names, or by a table of equivalent names."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from unified_profiler.toml_files import packaged_toml


def common_name(name: str) -> str:
    """Return the name of an API call that is common to several frameworks.

    It is the last part in lower case and without underscores (`torch.nn.Conv2d` and `keras.layers.Conv2D`), or the
    equivalent that `api_names.toml` lists. A method by which an object does its work has the name of its class.
    """
    owner, _, last = name.rpartition(".")
    if any(fnmatchcase(name, pattern) for pattern in _table()["work_of_object"]):
        last = owner.rpartition(".")[2]
    word = last.replace("_", "").lower()
    return equal_names().get(word, word)


@cache
def equal_names() -> dict[str, str]:
    """Return the common name of each word that differs from it."""
    return {word: common for common, words in _table()["equal"].items() for word in words}


@cache
def _table() -> dict[str, Any]:
    return packaged_toml("unified_profiler.comparison", "api_names.toml")
