"""Methods of MindSpore that are wrapped as long as anybody watches them.

Watchers come and go in any order, and the last to go leaves the class as it was. Should somebody else have wrapped a
method meanwhile, the wrapper stays beneath theirs and only passes calls on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

Invoke: TypeAlias = Callable[[], Any]
Around: TypeAlias = Callable[[Invoke, Any, tuple[Any, ...]], Any]
"""Makes a call, given what makes it, the object whose method it is and the arguments; lets its errors pass."""
Undo: TypeAlias = Callable[[], None]


def watch(owner: type, name: str, around: Around) -> Undo:
    """Have every call of a method go through something else.

    Args:
        owner: The class; the method may be inherited.
        name: The method.
        around: Called instead; of several the last to come is the outermost.
    """
    method = _methods.get((owner, name))
    if method is None:
        method = _methods[owner, name] = _Method(owner, name)
    method.watchers.append(around)

    def undo() -> None:
        if around in method.watchers:
            method.watchers.remove(around)
        if not method.watchers and _methods.get((owner, name)) is method:
            del _methods[owner, name]
            method.restore()

    return undo


class _Method:
    """One wrapped method, from its first watcher to its last."""

    def __init__(self, owner: type, name: str) -> None:
        self.watchers: list[Around] = []
        self._owner, self._name = owner, name
        self._original = vars(owner).get(name)
        self._wrapper = self._wrapped()
        setattr(owner, name, self._wrapper)

    def restore(self) -> None:
        """Put back the identical object, or nothing where the method was inherited."""
        if vars(self._owner).get(self._name) is not self._wrapper:
            return
        if self._original is None:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._original)

    def _wrapped(self) -> Callable[..., Any]:
        owner, name, original, watchers = self._owner, self._name, self._original, self.watchers

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            method = getattr(super(owner, self), name) if original is None else original.__get__(self, owner)
            invoke: Invoke = functools.partial(method, *args, **kwargs)
            for around in tuple(watchers):
                invoke = functools.partial(around, invoke, self, args)
            return invoke()

        if original is None:  # not said to wrap what is inherited, which whoever traces calls would find once more
            call.__name__, call.__qualname__ = name, f"{owner.__qualname__}.{name}"
            return call
        return functools.wraps(original)(call)


_methods: dict[tuple[type, str], _Method] = {}
