"""The names by which people call things of a framework: the shortest path that can be imported.

A function is often known by several paths, most of them private ones. The public modules of its package are walked
from the top, so that the shortest path comes first.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from unified_profiler.errors import UsageError
from unified_profiler.keywords import checked_keywords

SHORT_PACKAGES = {"tensorflow": "tf"}
"""Packages that everybody calls by another name."""

_INTERNAL = frozenset(
    {"keras.src", "keras.api", "tf_keras.src", "tensorflow.python", "tensorflow.core", "tensorflow.compiler"}
)
_DEEPEST = 6


@checked_keywords
def api_name(thing: Any) -> str:
    """Return the shortest importable name of a function, class, method or descriptor.

    Of TensorFlow's several names for one thing it is the one that TensorFlow itself declares to be the first, and that
    its documentation has: `tf.linalg.matmul`. What no public module holds gets the name it was defined by.

    Raises:
        UsageError: It has no name, as a number or an object of some class has none.
    """
    if isinstance(thing, ModuleType):
        return thing.__name__
    if isinstance(thing, property):
        thing = thing.fget
    thing = getattr(thing, "__func__", thing) if inspect.ismethod(thing) else thing
    package, name = _home(thing), getattr(thing, "__name__", None)
    if package is None or not isinstance(name, str):
        msg = f"`api_name` takes a function, class, method or descriptor; found {type(thing).__name__} {thing!r:.80}."
        raise UsageError(msg)
    known = public_names(package, anew=False).of(thing)
    return known or public_names(package).of(thing) or _defined_as(thing, package)


class PublicNames:
    """The public names of one package as it is now."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.paths: dict[str, Any] = {}
        """Everything public that can be called, by its shortest path."""
        self._name_of: dict[Any, str] = {}
        self._classes: list[type] = []
        root = sys.modules.get(package)
        if root is not None:
            self._walk(root, SHORT_PACKAGES.get(package, package))

    def of(self, thing: Any) -> str | None:
        """Return the name of a thing, None if no public module or class holds it."""
        found = self._name_of.get(thing) if _is_hashable(thing) else None
        return found or self._as_member(thing)

    def _walk(self, root: ModuleType, name: str) -> None:
        level, seen = [(name, root)], {id(root)}
        for _ in range(_DEEPEST):
            below: list[tuple[str, ModuleType]] = []
            for path, module in level:
                for attribute, value in sorted(_public(module), key=lambda pair: (len(pair[0]), pair[0])):
                    if not issubclass(type(value), ModuleType):
                        self._add(f"{path}.{attribute}", value)
                    elif id(value) not in seen and self._is_public_part(value):
                        seen.add(id(value))
                        below.append((f"{path}.{attribute}", value))
            level = sorted(below, key=lambda pair: (len(pair[0]), pair[0]))

    def _add(self, path: str, value: Any) -> None:
        if not callable(value) or not _is_hashable(value) or _home(value) != self.package:
            return
        known, name = self._name_of.get(value), _declared(value) or path
        if known is not None and not _is_home(name, value, rather_than=known):
            return
        self.paths.pop(known or "", None)
        self._name_of[value] = name
        self.paths.setdefault(name, value)
        if known is None and isinstance(value, type):
            self._classes.append(value)

    def _is_public_part(self, module: ModuleType) -> bool:
        name = vars(module).get("__name__", "")  # not by getattr: modules that load themselves later do it then
        return name.partition(".")[0] == self.package and not any(
            name == internal or name.startswith(f"{internal}.") for internal in _INTERNAL
        )

    def _as_member(self, thing: Any) -> str | None:
        """Name a method by the shortest public class that has it."""
        owner = getattr(thing, "__objclass__", None) or _owner(thing)
        if owner is not None:
            classes = [kind for kind in self._classes if owner in kind.__mro__]
        elif isinstance(thing, FunctionType):  # made by a function, and put into a class by another
            classes = [kind for kind in self._classes if any(value is thing for value in vars(kind).values())]
        else:
            return None
        holders = [(c, _attribute(c, thing)) for c in classes]
        names = [(self._name_of[c], attribute, c is owner) for c, attribute in holders if attribute]
        if not names:
            return None
        path, attribute, _ = min(names, key=lambda found: (found[0].count("."), not found[2], len(found[0]), found[0]))
        return f"{path}.{attribute}"


_walked: dict[str, tuple[int, PublicNames]] = {}


def public_names(package: str, *, anew: bool = True) -> PublicNames:
    """Return the public names of a package.

    Args:
        package: Its name.
        anew: Whether to look again if modules were imported since the last look.
    """
    count, names = _walked.get(package, (0, None))
    if names is None or (anew and count != len(sys.modules)):
        names = PublicNames(package)
        _walked[package] = len(sys.modules), names
    return names


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield what a module holds already: nothing is imported by looking."""
    for name, value in list(vars(module).items()):
        if not name.startswith("_"):
            yield name, value


def _home(thing: Any) -> str | None:
    """Return the package that a thing comes from; builtins tell it by what they are bound to."""
    module = getattr(thing, "__module__", None)
    if not isinstance(module, str):
        owner = getattr(thing, "__objclass__", None) or getattr(thing, "__self__", None)
        module = owner.__name__ if isinstance(owner, ModuleType) else getattr(owner, "__module__", None)
    return module.partition(".")[0] if isinstance(module, str) else None


def _is_home(name: str, thing: Any, *, rather_than: str) -> bool:
    """Say whether a name that is no longer than another is that of the module in which the thing was defined."""
    module = getattr(thing, "__module__", None)
    return name.count(".") == rather_than.count(".") and name.rpartition(".")[0] == module


def _declared(thing: Any) -> str | None:
    """Return the first of the names that TensorFlow gives to a thing of its own."""
    plain = inspect.unwrap(thing) if callable(thing) and hasattr(thing, "__wrapped__") else thing
    names: Iterable[str] = vars(plain).get("_tf_api_names", ()) if hasattr(plain, "__dict__") else ()
    first = next(iter(names), None)
    return None if first is None else f"tf.{first}"


def _owner(thing: Any) -> type | None:
    """Return the class in which a method was defined."""
    path = getattr(thing, "__qualname__", "").split(".")[:-1]
    found: Any = sys.modules.get(getattr(thing, "__module__", None) or "")
    for part in path:
        found = getattr(found, part, None)
    return found if path and isinstance(found, type) else None


def _attribute(owner: type, thing: Any) -> str | None:
    """Return the attribute by which a class holds a method; not all are called as they were defined."""
    name = getattr(thing, "__name__", "")
    if _member(owner, name) is thing and not _is_private(name):
        return name
    return min((key for key in vars(owner) if _member(owner, key) is thing), key=_is_private, default=None)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _member(owner: type, name: str) -> Any:
    value = inspect.getattr_static(owner, name, None)
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value


def _defined_as(thing: Any, package: str) -> str:
    module = getattr(thing, "__module__", None) or package
    return f"{module}.{getattr(thing, '__qualname__', thing.__name__)}"


def _is_hashable(thing: Any) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True
