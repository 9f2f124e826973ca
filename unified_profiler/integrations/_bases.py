"""Makes our callbacks subclasses of a trainer's own callback class, without importing the trainer's library.

The base classes are added when the first callback is created: by then the program has imported the library.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from unified_profiler.errors import UsageError

T = TypeVar("T")


def with_bases(cls: type[T], bases: tuple[type[Any], ...], *, library: str) -> type[T]:
    """Return the class with these additional bases; the same class object each time.

    Raises:
        UsageError: There are no bases, since the program has not imported the library.
    """
    if not bases:
        msg = f"{cls.__name__} is a callback for {library}, which this program has not imported: import it first."
        raise UsageError(msg)
    hashable: Any = cls  # mypy does not accept type[T]
    missing = tuple(base for base in bases if not issubclass(cls, base))
    return _subclass(hashable, missing) if missing else cls


@cache
def _subclass(cls: type[Any], bases: tuple[type[Any], ...]) -> Any:
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    return type(cls.__name__, (cls, *bases), names)
