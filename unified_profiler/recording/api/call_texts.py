"""What arguments were, in a few words: `Tensor[4,16] float32 cpu`, numbers and short strings as they are.

Nothing here keeps an argument, and no code of the user's runs: what is not known is told by the name of its class.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unified_profiler.masking import MASK, is_secret_name, mask_text
from unified_profiler.model.text import storable

_LONGEST = 60
_MOST_ELEMENTS = 6
_TOO_SHORT = 12
"""Characters of a text in which there is no secret, such as "mean" and "cuda:0"."""
_LOOKED_AT = 500
_QUOTES = ("'", '"')
_BETWEEN, _NAMED = "\x1f", "\x1e"

Say = Callable[[Any], str]


class CallTexts:
    """Turns arguments into text, and that text into JSON."""

    def __init__(self, values: Mapping[type, Say]) -> None:
        """Take what to say of the values of frameworks, by class."""
        self._values = dict(values)
        self._say = _Known(_PLAIN | self._values, self._unknown)
        self._say.update({list: self._sequence("[", "]"), tuple: self._sequence("(", ")"), slice: self._slice})

    def of(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> str:
        """Return the text of all arguments of a call."""
        say = self._say
        try:
            texts = [say[type(value)](value) for value in args]
            if kwargs:
                texts += [f"{name}{_NAMED}{say[type(value)](value)}" for name, value in kwargs.items()]
        except Exception:  # noqa: BLE001  a value that cannot be described must not fail the call it is given to
            return "?"
        return _BETWEEN.join(texts)

    def _unknown(self, kind: type) -> Say:
        """Find what to say of values of a class seen for the first time."""
        for parent in kind.__mro__:
            if parent in self._values:
                return self._values[parent]
        name = kind.__name__
        if {"shape", "dtype"} <= set(dir(kind)) and kind.__module__.partition(".")[0] == "numpy":
            return lambda value: f"{name}{list(value.shape)} {value.dtype}".replace(", ", ",")
        return lambda _: name

    def _sequence(self, opening: str, closing: str) -> Say:
        say = self._say

        def text(values: Sequence[Any]) -> str:
            some = ", ".join([say[type(value)](value) for value in values[:_MOST_ELEMENTS]])
            more = f", ... {len(values)} in all" if len(values) > _MOST_ELEMENTS else ""
            return _cut(f"{opening}{some}{more}{closing}")

        return text

    def _slice(self, value: slice) -> str:
        parts = (value.start, value.stop, value.step)
        return ":".join("" if part is None else self._say[type(part)](part) for part in parts[: 3 if value.step else 2])


class _Known(dict[type, Say]):
    """What to say by class, found out once for each."""

    def __init__(self, known: Mapping[type, Say], unknown: Callable[[type], Say]) -> None:
        super().__init__(known)
        self._unknown = unknown

    def __missing__(self, kind: type) -> Say:
        """Find out for a class not seen before."""
        self[kind] = say = self._unknown(kind)
        return say


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _quoted(value: str) -> str:
    if len(value) > _TOO_SHORT:  # masked before it is cut, as what is left of a secret does not look like one
        value = mask_text(value[:_LOOKED_AT])
    return _cut(repr(value[: _LONGEST + 1]))


_PLAIN: dict[type, Say] = {
    type(None): repr,
    bool: repr,
    int: lambda value: _cut(repr(value)) if abs(value) < 1 << 64 else f"int of {value.bit_length()} bits",
    float: repr,
    complex: repr,
    str: _quoted,
    bytes: lambda value: f"bytes[{len(value)}]",
    dict: lambda value: f"dict[{len(value)}]",
    type(Ellipsis): lambda _: "...",
    type: lambda value: value.__name__,
    type(_cut): lambda value: value.__name__,
    type(len): lambda value: value.__name__,
}


def _named(part: str) -> tuple[str, str]:
    """Return name and text of a keyword argument; a text that is given as a secret is masked."""
    name, value = part.split(_NAMED, 1)
    return name, MASK if value[:1] in _QUOTES and is_secret_name(name) else value


def as_attributes(text: str, *, finished: bool = True) -> str | None:
    """Return the JSON object that an event keeps of the arguments, None if there is nothing to keep."""
    said: dict[str, Any] = {}
    parts = storable(text).split(_BETWEEN) if text else []
    positional = [part for part in parts if _NAMED not in part]
    named = dict(_named(part) for part in parts if _NAMED in part)
    if positional:
        said["args"] = positional
    if named:
        said["kwargs"] = named
    if not finished:
        said["finished"] = False
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")) if said else None
