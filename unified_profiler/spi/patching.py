"""Replaces attributes of a framework's modules and classes for a while, and puts the identical objects back.

This is the one mechanism for it. Patches of one attribute nest and may end in any order: one that ends beneath another
stays until the upper one ends. Where somebody else has wrapped an attribute meanwhile, it is left to them; a patch
that has ended beneath theirs must then do no more than pass calls on.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, TypeAlias, TypeVar

Undo: TypeAlias = Callable[[], None]
Report: TypeAlias = Callable[[int], None]
"""Takes an id of whatever sent a signal."""
Invoke: TypeAlias = Callable[[], Any]
Around: TypeAlias = Callable[[Invoke, Any, tuple[Any, ...]], Any]
"""Makes a call, given what makes it, the object whose method it is, and the arguments; lets its errors pass."""

_INHERITED = object()
_lock = threading.Lock()


@dataclass(eq=False)
class _Patch:
    replacement: Any
    original: Any
    ended: bool = False


_patches: dict[tuple[Any, str], list[_Patch]] = {}


def replace(owner: Any, name: str, replacement: Any) -> Undo:
    """Set an attribute of a module or class, its own or an inherited one; return what takes that back."""
    with _lock:
        patch = _Patch(replacement, vars(owner).get(name, _INHERITED))
        _patches.setdefault((owner, name), []).append(patch)
        setattr(owner, name, replacement)

    def undo() -> None:
        patch.ended = True
        with _lock:
            _restore(owner, name)

    return undo


def _restore(owner: Any, name: str) -> None:
    """Take away the patches that have ended, from the top down."""
    patches = _patches.get((owner, name), [])
    while patches and patches[-1].ended and vars(owner).get(name) is patches[-1].replacement:
        original = patches.pop().original
        if original is _INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, original)
    if not patches:
        _patches.pop((owner, name), None)


def wrap(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Undo:
    """Wrap a function or method that a module or class has of its own.

    Args:
        owner: The module or class.
        name: The name of the attribute.
        make: Takes the original and returns the wrapper.

    Raises:
        KeyError: It has none of that name.
    """
    original = vars(owner)[name]
    return replace(owner, name, functools.wraps(original)(make(original)))


def in_turn(*undoings: Undo) -> Undo:
    """Return what undoes several things, the last one first."""

    def undo() -> None:
        for one in reversed(undoings):
            one()

    return undo


def wrap_method(owner: type, name: str, around: Around) -> Undo:
    """Have every call of a method, its class's own or an inherited one, go through `around`."""
    original, ended = vars(owner).get(name), False

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        method = getattr(super(owner, self), name) if original is None else original.__get__(self, owner)
        if ended:
            return method(*args, **kwargs)
        return around(functools.partial(method, *args, **kwargs), self, args)

    if original is None:  # without `__wrapped__`: tracers of calls would find the inherited method a second time
        call.__name__, call.__qualname__ = name, f"{owner.__qualname__}.{name}"
    else:
        functools.update_wrapper(call, original)
    restore = replace(owner, name, call)

    def undo() -> None:
        nonlocal ended
        ended = True
        restore()

    return undo


def report_made(owner: type, report: Report) -> Undo:
    """Report the id of each instance of a class right after it was made."""

    def around(invoke: Invoke, instance: Any, _args: tuple[Any, ...]) -> None:
        invoke()
        report(id(instance))

    return wrap_method(owner, "__init__", around)


Kind = TypeVar("Kind", bound=Hashable)


class SharedPatch(Generic[Kind]):
    """A patch that is in place as long as anybody listens to one of the kinds of signals that come from it."""

    def __init__(self, install: Callable[[ModuleType, Mapping[Kind, Report]], Undo]) -> None:
        """Make it.

        Args:
            install: Patches a module, given who listens to which kind; returns what takes that back.
        """
        self._install = install
        self._listeners: dict[Kind, Report] = {}
        self._undo: Undo | None = None

    def listen(self, kind: Kind, module: ModuleType, report: Report) -> Undo:
        """Report the signals of one kind."""
        if not self._listeners:
            self._undo = self._install(module, self._listeners)
        self._listeners[kind] = report

        def undo() -> None:
            if self._listeners.pop(kind, None) is not None and not self._listeners and self._undo is not None:
                restore, self._undo = self._undo, None  # kept, it would keep the framework's functions alive at exit
                restore()

        return undo

    def listener(self, kind: Kind) -> Callable[[ModuleType, Report], Undo]:
        """Return `listen` for one kind, as `StepHook.install` takes it."""
        return functools.partial(self.listen, kind)


class Inside(threading.local):
    """What this thread is inside of: the patched call that began first, or None."""

    now: Any = None


@contextmanager
def outermost(inside: Inside, what: object) -> Iterator[bool]:
    """Enter a call; the value is whether this thread was inside none before."""
    if inside.now is not None:
        yield False
        return
    inside.now = what
    try:
        yield True
    finally:
        inside.now = None
