"""Callbacks that must be, or had better be, instances of their trainer's own class, without our importing it.

Such a class is completed when its first instance is made: by then the program has imported the trainer's library.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from unified_profiler.errors import UsageError

T = TypeVar("T")


def completed(cls: type[T], bases: tuple[type[Any], ...], *, library: str) -> type[T]:
    """Return the class with these among its bases; one and the same class each time.

    Raises:
        UsageError: There are none: the program has not imported the library.
    """
    if not bases:
        msg = f"{cls.__name__} is a callback for {library}, which this program has not imported: import it first."
        raise UsageError(msg)
    hashable: Any = cls  # mypy does not take a type[T] for one
    missing = tuple(base for base in bases if not issubclass(cls, base))
    return _joined(hashable, missing) if missing else cls


@cache
def _joined(cls: type[Any], bases: tuple[type[Any], ...]) -> Any:
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    return type(cls.__name__, (cls, *bases), names)
