"""Calling back right after a module was imported, without importing it and without changing how it is imported.

A finder at the head of `sys.meta_path` lends watched modules a loader that puts the real one back before it runs.
"""

from __future__ import annotations

import importlib.abc
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import Any, final

from unified_profiler.spi import is_imported

logger = logging.getLogger("unified_profiler")

Callback = Callable[[ModuleType], None]


@final
class ImportWatch(importlib.abc.MetaPathFinder):
    """Watches for modules between `with` and its end; what a callback raises is logged and goes no further."""

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callback]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> ImportWatch:
        """Begin to watch."""
        sys.meta_path.insert(0, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave `sys.meta_path` as if nothing had been there."""
        self._callbacks.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def when_imported(self, name: str, callback: Callback) -> None:
        """Call back once with the module: now if it is imported already, else right after its import."""
        if is_imported(name):
            _call(callback, sys.modules[name])
            return
        with self._lock:
            self._callbacks.setdefault(name, []).append(callback)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders give, with a lent loader, if the module is watched."""
        if fullname not in self._callbacks:
            return None
        spec = self._spec_of_others(fullname, path, target)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return None
        spec.loader = _LentLoader(spec.loader, self._imported)
        return spec

    def _spec_of_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None

    def _imported(self, module: ModuleType) -> None:
        with self._lock:
            callbacks = self._callbacks.pop(module.__name__, [])
        for callback in callbacks:
            _call(callback, module)


class _LentLoader(importlib.abc.Loader):
    """Stands in for the real loader until the module runs, then steps back and reports when it is done."""

    def __init__(self, real: Any, imported: Callback) -> None:
        self._real = real
        self._on_import = imported

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Do as the real loader does."""
        spec.loader = self._real
        try:
            module: ModuleType | None = self._real.create_module(spec)
        finally:
            spec.loader = self
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Put the real loader back, run the module, and report."""
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        imported = sys.modules.get(module.__name__, module)
        spec = getattr(imported, "__spec__", None)
        if isinstance(spec, ModuleSpec):
            vars(spec)["_initializing"] = False  # as Python itself does right after this
        self._on_import(imported)


def _call(callback: Callback, module: ModuleType) -> None:
    try:
        callback(module)
    except Exception:  # an import of the user's program must not fail because of a watcher
        logger.exception("A callback after the import of %s failed", module.__name__)
