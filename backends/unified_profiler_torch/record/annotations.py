"""Adds annotations to the native trace while a recording runs.

They mark the recomputation of checkpointed functions and, in Keras with the torch backend, layers and updates. An
update is annotated as torch annotates its own optimizers.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.checkpoint

from unified_profiler.spi.patching import Undo, replace
from unified_profiler_torch.canonical.table import LAYER, RECOMPUTATION, lookup


def annotate() -> list[Undo]:
    """Start annotating; return functions that stop it."""
    return [*_annotate_recomputation(), *_annotate_keras()]


def _annotate_recomputation() -> list[Undo]:
    """Annotate the recomputation of checkpoints; reentrant checkpoints have an autograd node that marks it."""
    hook = getattr(torch.utils.checkpoint, "_recomputation_hook", None)
    if hook is None:
        return []

    class Annotated(hook):  # type: ignore[misc, valid-type]
        def __enter__(self) -> None:
            self._annotation = torch.profiler.record_function(RECOMPUTATION)
            self._annotation.__enter__()
            super().__enter__()

        def __exit__(self, *error: object) -> None:
            super().__exit__(*error)
            self._annotation.__exit__(None, None, None)

    return [replace(torch.utils.checkpoint, "_recomputation_hook", Annotated)]


def _annotate_keras() -> list[Undo]:
    """Annotate Keras layers and updates if Keras runs on torch in this process."""
    layers = sys.modules.get("keras.src.backend.torch.layer")
    optimizers = sys.modules.get("keras.src.optimizers.base_optimizer")
    if layers is None or optimizers is None:
        return []
    return [
        _annotate(layers.TorchLayer, "forward", _layer_name),
        _annotate(optimizers.BaseOptimizer, "apply", lambda cls: f"Optimizer.step#{cls.__name__}.step"),
    ]


def _annotate(owner: type, method: str, name_of: Callable[[type], str | None]) -> Undo:
    original, compiling = vars(owner)[method], torch.compiler.is_compiling

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = None if compiling() else name_of(type(self))
        if name is None:
            return original(self, *args, **kwargs)
        with torch.profiler.record_function(name):
            return original(self, *args, **kwargs)

    return replace(owner, method, call)


@functools.lru_cache(maxsize=1 << 10)
def _layer_name(cls: type) -> str | None:
    """Return the annotation of a layer whose class, or a base of it, is an operator in the table, else None."""
    names = (f"{LAYER}{base.__name__}" for base in cls.__mro__ if base.__module__.startswith("keras."))
    return next((name for name in names if lookup().layer(name)), None)
