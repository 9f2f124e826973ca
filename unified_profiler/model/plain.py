"""Converts any Python value to plain data and to standard JSON, without ever raising.

Values from users (`meta` of regions, native options) may be of any class, and errors in their code must not stop the
training.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

from unified_profiler.model.text import storable

_MAX_DEPTH = 50
"""Nesting depth of containers; deeper ones become text."""


def json_text(value: Any) -> str:
    """Return a value as JSON: unchanged if JSON can represent it, else converted by `plain`."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, default=text_of)
        text.encode()  # raises on lone surrogates
    except Exception:  # noqa: BLE001  keys that are not text, cycles, numbers and strings that JSON cannot hold
        return json.dumps(plain(value), ensure_ascii=False)
    return text


def plain(value: Any, _within: tuple[int, ...] = ()) -> Any:
    """Return a value as None, booleans, numbers, strings, lists and dictionaries with string keys.

    Objects and numbers that JSON lacks become text; a container within itself becomes the name of its class.
    """
    try:
        if isinstance(value, (dict, list, tuple)):
            return _container(value, _within)
        return _single(value)
    except Exception:  # noqa: BLE001  a class may do anything, and another thread may change a container meanwhile
        return _placeholder(value)


def text_of(value: object) -> str:
    """Return the text of a value: by `str`, by `repr` if that fails, else a placeholder with its class name."""
    for convert in (str, repr):
        with suppress(Exception):  # user code
            return storable(convert(value))
    return _placeholder(value)


def _container(value: dict[Any, Any] | list[Any] | tuple[Any, ...], within: tuple[int, ...]) -> Any:
    if id(value) in within or len(within) == _MAX_DEPTH:
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
        # Python limits the number of digits when converting to text
        return int(value) if abs(value) < 1 << 64 else f"int of {value.bit_length()} bits"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    return text_of(value)


def _placeholder(value: object) -> str:
    return f"<{type(value).__name__}>"
