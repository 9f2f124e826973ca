"""Rejects unknown keyword arguments of public calls and suggests the nearest name.

Python's own TypeError is not one of this package's errors and suggests nothing.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from unified_profiler.errors import ArgumentError

_Call = TypeVar("_Call", bound=Callable[..., Any])

_COUNTERPARTS = {
    "activities": "Devices are recorded, too. To restrict it: native_options={'torch': {'activities': [...]}}.",
    "experimental_config": "Pass it on: native_options={'torch': {'experimental_config': ...}}.",
    "key_averages": "The same table: unified_profiler.op_table(profiler.run).",
    "events": "All events: the table `events` of each trace in profiler.traces.",
    "export_chrome_trace": "To write the traces: unified_profiler.write(profiler.run, 'trace.json').",
    "export_stacks": "Times by stack: unified_profiler.op_table(profiler.run, by='stack').",
}
"""What this package has instead of names of torch.profiler."""
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def did_you_mean(name: object, known: Iterable[str], *, at_most: int = 1) -> str:
    """Return " Did you mean ...?" with the nearest known names, or an empty string if none is near."""
    import difflib  # only mistakes need it

    near = difflib.get_close_matches(str(name), known, n=at_most)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def counterpart(name: str) -> str:
    """Return what this package has instead of a name of torch.profiler, with a space before it, or an empty string."""
    return f" {_COUNTERPARTS[name]}" if name in _COUNTERPARTS else ""


def checked_keywords(call: _Call) -> _Call:
    """Make a function or a class's constructor raise ArgumentError for unknown keywords.

    The signature that people, editors and type checkers see does not change.

    Raises:
        ArgumentError: When called with an unknown keyword; the message suggests the nearest one.
    """
    if isinstance(call, type):
        call.__init__ = _checked(call.__init__, call.__name__)  # type: ignore[misc]
        return call
    return cast("_Call", _checked(call, call.__name__))


def check_keywords(label: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Check the keywords of a call.

    Raises:
        ArgumentError: One of them does not exist.
    """
    names = list(known)
    unknown = [name for name in given if name not in names]
    if unknown:
        hint = counterpart(unknown[0]) or did_you_mean(unknown[0], names)
        msg = f"{label}(...) has no keyword {unknown[0]!r}.{hint} Its keywords are: {', '.join(names) or 'none'}."
        raise ArgumentError(msg)


def keywords_of(call: Callable[..., Any]) -> list[str]:
    """Return the keyword names of a function or constructor."""
    parameters = inspect.signature(call).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in _BY_NAME and parameter.name != "self"]


def _checked(function: Callable[..., Any], label: str) -> Callable[..., Any]:
    known = keywords_of(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check_keywords(label, kwargs, known)
        return function(*args, **kwargs)

    return call
