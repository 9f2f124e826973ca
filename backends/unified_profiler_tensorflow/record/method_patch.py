"""MethodPatch: a method of a framework's class replaced for a while, and the identical one put back.

Patches nest and end in any order. One that has ended below somebody else's wrapper stays there and must do nothing.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

Method = Callable[..., Any]

_LOCK = threading.Lock()
_MARK = "_unified_profiler_patch"


class MethodPatch:
    """A wrapper in the place of a method, from its making until `undo`."""

    def __init__(self, owner: type, name: str, make: Callable[[Method], Method]) -> None:
        """Replace a method.

        Args:
            owner: The class that defines it.
            name: Its name.
            make: Takes the method that is there and returns the one that calls it.
        """
        self._owner, self._name = owner, name
        self._done = False
        with _LOCK:
            self._original: Method = vars(owner)[name]
            self._wrapper: Any = functools.wraps(self._original)(make(self._original))
            setattr(self._wrapper, _MARK, self)
            setattr(owner, name, self._wrapper)

    def undo(self) -> None:
        """Put back what was there, as soon as all patches above this one have ended too."""
        self._done = True
        with _LOCK:
            while (top := self._top()) is not None and top._done:
                setattr(self._owner, self._name, top._original)

    def _top(self) -> MethodPatch | None:
        """Return the patch that is in place now, None if it is somebody else's (who may have copied our mark)."""
        current = vars(self._owner)[self._name]
        patch: MethodPatch | None = getattr(current, _MARK, None)
        return patch if patch is not None and patch._wrapper is current else None
