"""Watching calls of functions from within: their code is replaced, not the functions.

A function keeps its identity, wherever it was imported to, under whatever alias, so that nothing is missed and nothing
counted twice, and `is`, pickling and `isinstance` find what they always found. Methods that are not written in Python
have no code to replace; those are replaced in their class.

Several tracers may watch one function. They come and go in any order: what is put back in the end is what was there.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, TypeAlias

Invoke: TypeAlias = Callable[[tuple[Any, ...], Any], Any]
"""Makes a call, given the arguments and the keywords."""
Watch: TypeAlias = Callable[[Callable[..., Any]], Invoke]
"""Takes what does the work and returns what is called instead."""

_HERE = "what is called instead"
_GENERATORS = 0x20 | 0x80 | 0x200
_MISSING = object()

lock = threading.RLock()
_functions: dict[FunctionType, _Swap] = {}
_attributes: dict[tuple[type, str], _Patch] = {}


def can_watch(function: Any) -> bool:
    """Say whether this is a function with code that can be replaced; generators only begin when they are called."""
    return isinstance(function, FunctionType) and not function.__code__.co_flags & _GENERATORS


def copy_of(function: FunctionType) -> FunctionType:
    """Return a function that does the same."""
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    for name in ("__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(copy, name, getattr(function, name))
    copy.__dict__.update(function.__dict__)
    return copy


def watch_function(function: FunctionType, watch: Watch) -> Callable[[], None]:
    """Have every call of a function go through something else; return the undoing."""
    with lock:
        swap = _functions.get(function)
        if swap is None:
            swap = _functions[function] = _Swap(function)
        swap.watches.append(watch)
        swap.install()
    return functools.partial(_unwatch, _functions, function, watch)


def watch_attribute(owner: type, attribute: str, watch: Watch) -> Callable[[], None]:
    """Have every call of a method of a class go through something else; return the undoing."""
    with lock:
        patch = _attributes.get((owner, attribute))
        if patch is None:
            patch = _attributes[owner, attribute] = _Patch(owner, attribute)
        patch.watches.append(watch)
        patch.install()
    return functools.partial(_unwatch, _attributes, (owner, attribute), watch)


def _unwatch(watched: dict[Any, Any], key: Any, watch: Watch) -> None:
    with lock:
        found = watched.get(key)
        if found is None or watch not in found.watches:
            return
        found.watches.remove(watch)
        if found.watches:
            found.install()
        else:
            found.restore()
            del watched[key]


class _Swap:
    """A function whose code is replaced."""

    def __init__(self, function: FunctionType) -> None:
        self.watches: list[Watch] = []
        self._function = function
        self._code = function.__code__
        self._had_wrapped = "__wrapped__" in vars(function)
        self.original = copy_of(function)

    def install(self) -> None:
        code = self._code
        template = _template(code.co_freevars)
        invoke = _through(self.watches, self.original)
        if not self._had_wrapped:
            self._function.__dict__["__wrapped__"] = self.original  # for inspect.signature and inspect.getsource
        self._function.__code__ = template.replace(
            co_consts=tuple(invoke if constant == _HERE else constant for constant in template.co_consts),
            co_name=f"{code.co_name} (traced)",  # in tracebacks, and for whoever counts the frames of a function
            co_filename=code.co_filename,
            co_firstlineno=code.co_firstlineno,
        )

    def restore(self) -> None:
        self._function.__code__ = self._code
        if not self._had_wrapped:
            self._function.__dict__.pop("__wrapped__", None)


class _Patch:
    """An attribute of a class that is replaced."""

    def __init__(self, owner: type, attribute: str) -> None:
        self.watches: list[Watch] = []
        self._owner, self._attribute = owner, attribute
        self._own = vars(owner).get(attribute, _MISSING)
        self._original = _unwatched(getattr(owner, attribute))
        self._invoke: Invoke = self._plainly

    def install(self) -> None:
        self._invoke = _through(self.watches, self._original)
        patch = self

        @functools.wraps(self._original)
        def method(*args: Any, **kwargs: Any) -> Any:
            return patch._invoke(args, kwargs)  # whoever has kept this method is watched no longer than others

        setattr(self._owner, self._attribute, method)

    def restore(self) -> None:
        self._invoke = self._plainly
        if self._own is _MISSING:
            delattr(self._owner, self._attribute)
        else:
            setattr(self._owner, self._attribute, self._own)

    def _plainly(self, args: tuple[Any, ...], kwargs: Any) -> Any:
        return self._original(*args, **kwargs)


def _unwatched(method: Any) -> Any:
    """Return what does the same without being watched: a method may be a function that is watched, too."""
    if not isinstance(method, FunctionType):
        return method
    swap = _functions.get(method)
    return copy_of(method) if swap is None else swap.original


def _through(watches: list[Watch], work: Callable[..., Any]) -> Invoke:
    first, *others = watches
    invoke = first(work)
    for watch in others:
        invoke = watch(_as_function(invoke))
    return invoke


def _as_function(invoke: Invoke) -> Callable[..., Any]:
    return lambda *args, **kwargs: invoke(args, kwargs)


@functools.lru_cache(maxsize=64)
def _template(free: tuple[str, ...]) -> CodeType:
    """Return code that takes any arguments and has the given free variables, as code put into a closure must."""
    outer = "".join(f"    {name} = None\n" for name in free)
    args, kwargs, instead = (f"{name}_of_the_call" for name in ("args", "kwargs", "instead"))  # free ones may be args
    body = "; ".join([*free, f"{instead} = {_HERE!r}", f"return {instead}({args}, {kwargs})"])  # one line, the first
    source = f"def outer():\n{outer}    def template(*{args}, **{kwargs}): {body}\n    return template\n"
    found: dict[str, Any] = {}
    exec(compile(source, "<watched call>", "exec", dont_inherit=True), found)  # noqa: S102  fixed text, names from code
    code: CodeType = found["outer"]().__code__
    return code
