"""Finds the path of a module in its model, such as `encoder.layers.0.self_attn`, from the outermost running module."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from unified_profiler.masking import mask_message
from unified_profiler.model.plain import text_of

Submodules: TypeAlias = Callable[[Any], Iterable[tuple[str, Any]]]
"""Lists all modules below a module, with their paths in it."""

Running: TypeAlias = list[tuple[Any, str]]
"""The modules running on a thread and their paths, the outermost first."""

logger = logging.getLogger("unified_profiler")


def log_error(error: Exception) -> None:
    """Log why modules are named after their callers."""
    logger.warning("The paths of modules could not be found: %s", mask_message(text_of(error)))


class _Model(NamedTuple):
    """An outermost module, its label, and the paths of the modules in it by their `id()`."""

    root: weakref.ref[Any]
    label: str
    paths: dict[int, str]


class ModulePaths:
    """Paths of modules. Those of a model are looked up once, and again when it runs a module without a path.

    The path of the outermost module is the name of its class. If two models have modules of the same path, those of the
    second begin with the name of the model. A part of a model that runs by itself, as with checkpointing in the
    backward pass, keeps its path in the model.

    Args:
        submodules: Lists the modules of a model. It runs methods of the user's classes, such as `named_modules`.
        on_error: Called with errors of these, once for each model, whose modules are then named after their callers.
    """

    def __init__(self, submodules: Submodules, on_error: Callable[[Exception], None] = log_error) -> None:
        self._submodules = submodules
        self._on_error = on_error
        self._unlisted: set[str] = set()
        """Models whose modules cannot be listed."""
        self._owners: dict[str, weakref.ref[Any]] = {}
        """The model of each path; an outermost module is its own model."""
        self._standalone: dict[int, weakref.ref[Any]] = {}
        """Outermost modules that belonged to no model when they first ran."""
        self._models: dict[int, _Model] = {}

    def enter(self, running: Running, module: Any) -> str:
        """Return the path of a module that begins to run, and add it to the running ones."""
        if not running:
            path = self._standalone_path(module) or self._label(module)
        else:
            root, label = self._model_around(*running[0])
            path = self._path(root, label, module) or f"{running[-1][1]}.{type(module).__name__}"
        running.append((module, path))
        return path

    def _standalone_path(self, module: Any) -> str | None:
        """Return the path in its model of a module that runs by itself, unless it did so before it was in a model."""
        standalone = self._standalone.get(id(module))
        if standalone is not None and standalone() is module:
            return None
        paths = (model.paths.get(id(module)) for model in list(self._models.values()) if model.root() is not None)
        return next((path for path in paths if path is not None), None)

    def _model_around(self, module: Any, path: str) -> tuple[Any, str]:
        """Return the model of an outermost module, usually the module itself, and the label of that model."""
        for model in list(self._models.values()):
            root = model.root()
            if root is not None and model.paths.get(id(module)) == path:
                return root, model.label
        return module, path

    def _label(self, root: Any) -> str:
        name = type(root).__name__
        label, number = name, 1
        while not self._is_free(label, root):
            number += 1
            label = f"{name}_{number}"
        self._owners[label] = self._standalone[id(root)] = weakref.ref(root)
        return label

    def _path(self, root: Any, label: str, module: Any) -> str | None:
        model = self._models.get(id(root))
        if model is None or model.root() is not root or id(module) not in model.paths:
            model = self._models[id(root)] = _Model(weakref.ref(root), label, self._list_paths(root, label))
        return model.paths.get(id(module))

    def _list_paths(self, root: Any, label: str) -> dict[int, str]:
        paths = {}
        for path, module in self._list_modules(root, label):
            if path and id(module) not in paths:
                unique = path if self._is_free(path, root) else f"{label}.{path}"
                self._owners[unique] = weakref.ref(root)
                paths[id(module)] = unique
        return paths

    def _list_modules(self, root: Any, label: str) -> list[tuple[str, Any]]:
        if label in self._unlisted:
            return []
        try:
            return list(self._submodules(root))
        except Exception as error:  # noqa: BLE001  user code, in the middle of a call of the model
            self._unlisted.add(label)
            self._on_error(error)
            return []

    def _is_free(self, path: str, root: Any) -> bool:
        owner = self._owners.get(path)
        return owner is None or owner() is None or owner() is root


def leave(running: Running, module: Any) -> None:
    """Remove a module, and all modules begun within it, from the running ones."""
    for index in reversed(range(len(running))):
        if running[index][0] is module:
            del running[index:]
            return
