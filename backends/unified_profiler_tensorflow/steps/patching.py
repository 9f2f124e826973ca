"""Putting wrappers in the place of what frameworks have, and the identical object back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

Report = Callable[[int], None]
Undo = Callable[[], None]


class Trains(IntEnum):
    """How a call is known to train; the value is the rank of its signal."""

    BY_OPTIMIZER = 0
    BY_GRADIENT = 1
    NOT = 3


class Inside(threading.local):
    """What this thread is inside of: the hooked call that began first."""

    now: Any = None


@contextmanager
def outermost(inside: Inside, what: object) -> Iterator[bool]:
    """Go inside, and say whether this thread was inside nothing yet."""
    if inside.now is not None:
        yield False
        return
    inside.now = what
    try:
        yield True
    finally:
        inside.now = None


def replace(owner: Any, name: str, replacement: Callable[..., Any]) -> Undo:
    """Put a wrapper in the place of an attribute; the undoing leaves it if somebody else wrapped it meanwhile."""
    own = name in vars(owner)  # else inherited: then the undoing takes the attribute away
    original = getattr(owner, name)
    setattr(owner, name, replacement)

    def undo() -> None:
        if vars(owner).get(name) is not replacement:
            return
        if own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)

    return undo


def in_turn(*undoings: Undo) -> Undo:
    """Undo several things, the last one first."""

    def undo() -> None:
        for one in reversed(undoings):
            one()

    return undo


_LISTENERS, _RESTORE = "_step_listeners", "_step_restore"

Listeners = dict[Trains, Report]


def listen(owner: Any, name: str, wrap: Callable[[Listeners], Callable[..., Any]], kind: Trains, to: Report) -> Undo:
    """Share one wrapper of a method among the hooks that listen to kinds of its calls."""
    wrapper = vars(owner).get(name)
    if not hasattr(wrapper, _LISTENERS):
        shared: Listeners = {}
        wrapper = wrap(shared)
        setattr(wrapper, _LISTENERS, shared)
        setattr(wrapper, _RESTORE, replace(owner, name, wrapper))
    listeners: Listeners = getattr(wrapper, _LISTENERS)
    listeners[kind] = to

    def undo() -> None:
        listeners.pop(kind, None)
        if not listeners:
            getattr(wrapper, _RESTORE)()

    return undo
