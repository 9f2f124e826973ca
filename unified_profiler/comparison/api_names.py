"""Which calls of two frameworks' APIs do the same: names that they have in common, or that a table says are equal."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from unified_profiler.toml_files import packaged_toml


def common_name(name: str) -> str:
    """Return what the names of a call in several frameworks have in common.

    It is the last part in lower case and without underscores (`torch.nn.Conv2d` and `keras.layers.Conv2D`), or what
    `api_names.toml` says of that. Of methods by which an object does its work the name of the class counts.
    """
    owner, _, last = name.rpartition(".")
    if any(fnmatchcase(name, pattern) for pattern in _table()["work_of_object"]):
        last = owner.rpartition(".")[2]
    word = last.replace("_", "").lower()
    return equal_names().get(word, word)


@cache
def equal_names() -> dict[str, str]:
    """Return the common name of each word that has another one."""
    return {word: common for common, words in _table()["equal"].items() for word in words}


@cache
def _table() -> dict[str, Any]:
    return packaged_toml("unified_profiler.comparison", "api_names.toml")
