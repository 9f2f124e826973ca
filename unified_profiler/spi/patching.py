"""Temporarily replaces attributes of a framework's modules and classes, and restores the identical objects.

Patches of one attribute nest and may end in any order: one that ends beneath another stays until the upper one ends. An
attribute that other code has wrapped in the meantime is not restored; a patch that has ended beneath that wrapper must
only pass calls on.
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
"""Receives the id of the sender of a signal."""
Invoke: TypeAlias = Callable[[], Any]
Around: TypeAlias = Callable[[Invoke, Any, tuple[Any, ...]], Any]
"""Runs a call, given the function that makes it, its object and its arguments; must let its errors pass."""

_INHERITED = object()
lock = threading.RLock()


@dataclass(eq=False)
class _Patch:
    replacement: Any
    original: Any
    ended: bool = False


_patches: dict[tuple[Any, str], list[_Patch]] = {}


def replace(owner: Any, name: str, replacement: Any) -> Undo:
    """Set an attribute of a module or class, its own or an inherited one; return the function that undoes this."""
    with lock:
        patch = _Patch(replacement, vars(owner).get(name, _INHERITED))
        _patches.setdefault((owner, name), []).append(patch)
        setattr(owner, name, replacement)

    def undo() -> None:
        patch.ended = True
        with lock:
            _restore(owner, name)

    return undo


def _restore(owner: Any, name: str) -> None:
    """Remove the patches that have ended, from the top down."""
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
    """Wrap a function or method that a module or class defines itself.

    Args:
        owner: The module or class.
        name: The name of the attribute.
        make: Returns the wrapper of the original.

    Raises:
        KeyError: The owner does not define this name.
    """
    original = vars(owner)[name]
    return replace(owner, name, functools.wraps(original)(make(original)))


def undo_all(*undos: Undo) -> Undo:
    """Return a function that calls several undo functions, the last one first."""

    def undo() -> None:
        for each in reversed(undos):
            each()

    return undo


def wrap_method(owner: type, name: str, around: Around) -> Undo:
    """Send every call of a method, defined by the class or inherited, through `around`."""
    original, ended = vars(owner).get(name), False

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        method = getattr(super(owner, self), name) if original is None else original.__get__(self, owner)
        if ended:
            return method(*args, **kwargs)
        return around(functools.partial(method, *args, **kwargs), self, args)

    if original is None:  # without `__wrapped__`, or API tracers would find the inherited method twice
        call.__name__, call.__qualname__ = name, f"{owner.__qualname__}.{name}"
    else:
        functools.update_wrapper(call, original)
    restore = replace(owner, name, call)

    def undo() -> None:
        nonlocal ended
        ended = True
        restore()

    return undo


def report_instances(owner: type, report: Report) -> Undo:
    """Report the id of each new instance of a class."""

    def around(invoke: Invoke, instance: Any, _args: tuple[Any, ...]) -> None:
        invoke()
        report(id(instance))

    return wrap_method(owner, "__init__", around)


SignalKind = TypeVar("SignalKind", bound=Hashable)


class SharedPatch(Generic[SignalKind]):
    """A patch that sends several kinds of signals and is installed while there is a listener for any of them.

    Args:
        install: Patches a module, given the listener of each kind; returns the function that undoes this.
    """

    def __init__(self, install: Callable[[ModuleType, Mapping[SignalKind, Report]], Undo]) -> None:
        self._install = install
        self._listeners: dict[SignalKind, Report] = {}
        self._undo: Undo | None = None

    def listen(self, kind: SignalKind, module: ModuleType, report: Report) -> Undo:
        """Report the signals of one kind."""
        if not self._listeners:
            self._undo = self._install(module, self._listeners)
        self._listeners[kind] = report

        def undo() -> None:
            if self._listeners.pop(kind, None) is not None and not self._listeners and self._undo is not None:
                restore, self._undo = self._undo, None  # a reference would keep the framework's functions alive at exit
                restore()

        return undo

    def listener(self, kind: SignalKind) -> Callable[[ModuleType, Report], Undo]:
        """Return `listen` for one kind, in the form of `StepHook.install`."""
        return functools.partial(self.listen, kind)


class Inside(threading.local):
    """The outermost patched call in progress on the current thread, or None."""

    now: Any = None


@contextmanager
def outermost(inside: Inside, call: object) -> Iterator[bool]:
    """Enter a patched call; the value is whether no other one is in progress on this thread."""
    if inside.now is not None:
        yield False
        return
    inside.now = call
    try:
        yield True
    finally:
        inside.now = None
