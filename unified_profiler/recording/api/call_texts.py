"""Describes the arguments of API calls in short texts: `Tensor[4,16] float32 cpu`, numbers and short strings verbatim.

No argument is kept and no user code runs: a value of an unknown class is described by the name of that class.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unified_profiler.masking import MASK, is_secret_name, mask_text
from unified_profiler.model.text import storable

_MAX_LENGTH = 60
_MAX_ELEMENTS = 6
_NO_SECRET = 12
"""Strings up to this length, such as "mean" and "cuda:0", contain no secret."""
_MASKED_LENGTH = 500
_QUOTES = ("'", '"')
_SEPARATOR, _KEYWORD = "\x1f", "\x1e"

Describe = Callable[[Any], str]


class CallTexts:
    """Converts the arguments of calls to text.

    Args:
        values: A function for each class of the frameworks' values that describes one.
    """

    def __init__(self, values: Mapping[type, Describe]) -> None:
        self._values = dict(values)
        self._describe = _DescribeByClass(_BUILTINS | self._values, self._describe_new_class)
        self._describe.update({list: self._sequence("[", "]"), tuple: self._sequence("(", ")"), slice: self._slice})

    def of(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> str:
        """Return the text of all arguments of a call."""
        describe = self._describe
        try:
            texts = [describe[type(value)](value) for value in args]
            if kwargs:
                texts += [f"{name}{_KEYWORD}{describe[type(value)](value)}" for name, value in kwargs.items()]
        except Exception:  # noqa: BLE001  a value that cannot be described must not fail the call it is given to
            return "?"
        return _SEPARATOR.join(texts)

    def _describe_new_class(self, cls: type) -> Describe:
        """Return the function that describes values of a class seen for the first time."""
        for parent in cls.__mro__:
            if parent in self._values:
                return self._values[parent]
        name = cls.__name__
        if {"shape", "dtype"} <= set(dir(cls)) and cls.__module__.partition(".")[0] == "numpy":
            return lambda value: f"{name}{list(value.shape)} {value.dtype}".replace(", ", ",")
        return lambda _: name

    def _sequence(self, opening: str, closing: str) -> Describe:
        describe = self._describe

        def text(values: Sequence[Any]) -> str:
            some = ", ".join([describe[type(value)](value) for value in values[:_MAX_ELEMENTS]])
            more = f", ... {len(values)} in all" if len(values) > _MAX_ELEMENTS else ""
            return _cut(f"{opening}{some}{more}{closing}")

        return text

    def _slice(self, value: slice) -> str:
        parts = (value.start, value.stop, value.step)[: 3 if value.step else 2]
        return ":".join("" if part is None else self._describe[type(part)](part) for part in parts)


class _DescribeByClass(dict[type, Describe]):
    """The function that describes a value, by class; looked up once for each new class."""

    def __init__(self, known: Mapping[type, Describe], for_new_class: Callable[[type], Describe]) -> None:
        super().__init__(known)
        self._for_new_class = for_new_class

    def __missing__(self, cls: type) -> Describe:
        return self.setdefault(cls, self._for_new_class(cls))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 3]}..."


def _quoted(value: str) -> str:
    if len(value) > _NO_SECRET:  # masked before it is cut: the rest of a secret does not look like one
        value = mask_text(value[:_MASKED_LENGTH])
    return _cut(repr(value[: _MAX_LENGTH + 1]))


_BUILTINS: dict[type, Describe] = {
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


def _keyword(part: str) -> tuple[str, str]:
    """Return name and text of a keyword argument; a string with the name of a secret is masked."""
    name, value = part.split(_KEYWORD, 1)
    return name, MASK if value[:1] in _QUOTES and is_secret_name(name) else value


def as_attributes(text: str, *, finished: bool = True) -> str | None:
    """Return the attributes of a call's event as a JSON object, None if there are none."""
    attributes: dict[str, Any] = {}
    parts = storable(text).split(_SEPARATOR) if text else []
    if args := [part for part in parts if _KEYWORD not in part]:
        attributes["args"] = args
    if kwargs := dict(_keyword(part) for part in parts if _KEYWORD in part):
        attributes["kwargs"] = kwargs
    if not finished:
        attributes["finished"] = False
    return json.dumps(attributes, ensure_ascii=False, separators=(",", ":")) if attributes else None
