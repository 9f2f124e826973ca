"""Runs callbacks right after the import of a module, without importing it or changing its import.

A finder at the head of `sys.meta_path` gives watched modules a loader that puts the real one back before they run.
"""

from __future__ import annotations

import importlib.abc
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, final

from unified_profiler.spi import is_imported

logger = logging.getLogger("unified_profiler")

Callback = Callable[[ModuleType], object]


@final
class ImportWatch(importlib.abc.MetaPathFinder):
    """Watches for the import of modules while the context is open; errors of callbacks are logged."""

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callback]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> ImportWatch:
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        self._callbacks.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def when_imported(self, name: str, callback: Callback) -> None:
        """Call back once with the module: now if it is already imported, else right after its import."""
        if is_imported(name):
            _call(callback, sys.modules[name])
            return
        with self._lock:
            self._callbacks.setdefault(name, []).append(callback)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the other finders with a reporting loader, if the module is watched."""
        if fullname not in self._callbacks:
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return None
        spec.loader = _ReportingLoader(spec.loader, self._run_callbacks)
        return spec

    def _run_callbacks(self, module: ModuleType) -> None:
        with self._lock:
            callbacks = self._callbacks.pop(module.__name__, [])
        for callback in callbacks:
            _call(callback, module)


class _ReportingLoader(importlib.abc.Loader):
    """Replaces the real loader until the module runs, and reports the end of the import."""

    def __init__(self, real: Any, on_import: Callback) -> None:
        self._real = real
        self._on_import = on_import

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        spec.loader = self._real
        try:
            module: ModuleType | None = self._real.create_module(spec)
        finally:
            spec.loader = self
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        imported = sys.modules.get(module.__name__, module)
        spec = getattr(imported, "__spec__", None)
        if isinstance(spec, ModuleSpec):
            vars(spec)["_initializing"] = False  # as Python itself does next
        self._on_import(imported)


def _call(callback: Callback, module: ModuleType) -> None:
    try:
        callback(module)
    except Exception:  # must not fail the import
        logger.exception("A callback after the import of %s failed", module.__name__)
