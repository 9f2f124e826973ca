"""Converts any Python value to plain data, and to JSON that every reader accepts. Nothing here raises.

Values that users hand over (`meta` of regions, native options) may be of any class, and whatever their own code does,
the training goes on.
"""

from __future__ import annotations

import json
import math
from typing import Any

from unified_profiler.model.text import storable

_DEEPEST = 50
"""Containers within containers; what lies deeper becomes text."""


def json_text(value: Any) -> str:
    """Return a value as JSON: unchanged where JSON can hold it, else as `plain` converts it."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, default=text_of)
        text.encode()  # lone surrogates are no UTF-8
    except Exception:  # noqa: BLE001  keys that are no text, cycles, numbers and strings that JSON cannot hold
        return json.dumps(plain(value), ensure_ascii=False)
    return text


def plain(value: Any, _within: tuple[int, ...] = ()) -> Any:
    """Return a value as None, booleans, numbers, strings, lists and dictionaries with strings as keys.

    Numbers that JSON lacks, and objects, become their text; a container within itself becomes the name of its class.
    """
    try:
        if isinstance(value, (dict, list, tuple)):
            return _container(value, _within)
        return _single(value)
    except Exception:  # noqa: BLE001  a class may do anything, and another thread may change a container meanwhile
        return _placeholder(value)


def text_of(value: object) -> str:
    """Return the text of a value: by `str`, by `repr` if that fails, else a placeholder that names its class."""
    for way in (str, repr):
        try:
            return storable(way(value))
        except Exception:  # noqa: BLE001, S112  it is code of the user's
            continue
    return _placeholder(value)


def _container(value: dict[Any, Any] | list[Any] | tuple[Any, ...], within: tuple[int, ...]) -> Any:
    if id(value) in within or len(within) == _DEEPEST:
        return _placeholder(value)
    inside = (*within, id(value))
    if isinstance(value, dict):
        return {text_of(key): plain(item, inside) for key, item in value.items()}
    return [plain(item, inside) for item in value]


def _single(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, int):
        # As Python limits the digits of a number in text
        return int(value) if abs(value) < 1 << 64 else f"int of {value.bit_length()} bits"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    return text_of(value)


def _placeholder(value: object) -> str:
    return f"<{type(value).__name__}>"
