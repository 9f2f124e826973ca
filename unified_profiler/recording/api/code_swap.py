"""Intercepts calls of Python functions by replacing their code object, not the functions themselves.

This is a mechanism apart from `spi.patching` because a replaced attribute misses all references that were imported
elsewhere or under an alias. A function with new code is intercepted wherever it is called, is counted once, and is
still the same object for `is`, pickling and `isinstance`. Methods not written in Python have no code object:
`spi.patching` replaces those in their class.

Several tracers may watch one function and end in any order; the last one to end puts the original code back.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, TypeAlias

from unified_profiler.spi import patching

Interceptor: TypeAlias = Callable[[tuple[Any, ...], Any], Any]
"""Makes a call, given the arguments and the keywords."""
Watch: TypeAlias = Callable[[Callable[..., Any]], Interceptor]
"""Takes the original function and returns its interceptor."""

_PLACEHOLDER = "the interceptor"
_GENERATORS = 0x20 | 0x80 | 0x200

lock = threading.RLock()
_swaps: dict[FunctionType, _CodeSwap] = {}


def can_watch(function: Any) -> bool:
    """Return whether the code of a function can be replaced; generators only begin when they are called."""
    return isinstance(function, FunctionType) and not function.__code__.co_flags & _GENERATORS


def watch_function(function: FunctionType, watch: Watch) -> Callable[[], None]:
    """Send every call of a function through an interceptor; return the function that undoes this."""
    with lock:
        if function not in _swaps:
            _swaps[function] = _CodeSwap(function)
        _swaps[function].watches.append(watch)
        _swaps[function].install()

    def undo() -> None:
        with lock:
            swap = _swaps.get(function)
            if swap is None or watch not in swap.watches:
                return
            swap.watches.remove(watch)
            if swap.watches:
                swap.install()
            else:
                swap.restore()
                del _swaps[function]

    return undo


def watch_attribute(owner: type, attribute: str, watch: Watch) -> Callable[[], None]:
    """Send every call of a method of a class through an interceptor; return the function that undoes this."""
    original = _unwatched(getattr(owner, attribute))
    intercept, ended = watch(original), False

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs) if ended else intercept(args, kwargs)

    restore = patching.replace(owner, attribute, method)

    def undo() -> None:
        nonlocal ended
        ended = True  # for references to `method` that were kept
        restore()

    return undo


class _CodeSwap:
    """A function whose code is replaced."""

    def __init__(self, function: FunctionType) -> None:
        self.watches: list[Watch] = []
        self._function = function
        self._code = function.__code__
        self._had_wrapped = "__wrapped__" in vars(function)
        self.original = _copy(function)

    def install(self) -> None:
        code = self._code
        template = _template(code.co_freevars)
        intercept = _chain(self.watches, self.original)
        if not self._had_wrapped:
            self._function.__dict__["__wrapped__"] = self.original  # for inspect.signature and inspect.getsource
        self._function.__code__ = template.replace(
            co_consts=tuple(intercept if constant == _PLACEHOLDER else constant for constant in template.co_consts),
            co_name=f"{code.co_name} (traced)",  # marks the extra frame in tracebacks and to code that counts frames
            co_filename=code.co_filename,
            co_firstlineno=code.co_firstlineno,
        )

    def restore(self) -> None:
        self._function.__code__ = self._code
        if not self._had_wrapped:
            self._function.__dict__.pop("__wrapped__", None)


def _copy(function: FunctionType) -> FunctionType:
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    for name in ("__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(copy, name, getattr(function, name))
    copy.__dict__.update(function.__dict__)
    return copy


def _unwatched(method: Any) -> Any:
    """Return an equivalent that is not intercepted: a method may also be a watched function."""
    if not isinstance(method, FunctionType):
        return method
    return _swaps[method].original if method in _swaps else _copy(method)


def _chain(watches: list[Watch], function: Callable[..., Any]) -> Interceptor:
    first, *others = watches
    intercept = first(function)
    for watch in others:
        intercept = watch(_as_function(intercept))
    return intercept


def _as_function(intercept: Interceptor) -> Callable[..., Any]:
    return lambda *args, **kwargs: intercept(args, kwargs)


@functools.lru_cache(maxsize=64)
def _template(free: tuple[str, ...]) -> CodeType:
    """Return code that takes any arguments and has the given free variables, as the code of a closure must."""
    outer = "".join(f"    {name} = None\n" for name in free)
    # names that differ from those of the free variables, which may include `args`
    args, kwargs, intercept = (f"{name}_of_the_call" for name in ("args", "kwargs", "intercept"))
    # one line, so that tracebacks show the first line of the function
    body = "; ".join([*free, f"{intercept} = {_PLACEHOLDER!r}", f"return {intercept}({args}, {kwargs})"])
    source = f"def outer():\n{outer}    def template(*{args}, **{kwargs}): {body}\n    return template\n"
    namespace: dict[str, Any] = {}
    exec(compile(source, "<watched call>", "exec", dont_inherit=True), namespace)  # noqa: S102  fixed text, names from code
    code: CodeType = namespace["outer"]().__code__
    return code
