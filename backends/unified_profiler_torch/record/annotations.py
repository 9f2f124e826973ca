"""Annotations that are put into the native trace while a recording runs, for what operators do not tell.

They are around the recomputation of checkpointed functions and, in Keras with the torch backend, around layers and
updates. An update is annotated as torch annotates that of its own optimizers.
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
    """Begin to annotate; return the undoings."""
    return [*_annotate_recomputation(), *_annotate_keras()]


def _annotate_recomputation() -> list[Undo]:
    """Annotate what the backward pass of a checkpoint computes again; reentrant ones have a node that tells it."""
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
    """Annotate layers and updates, if Keras runs on torch in this process."""
    layers = sys.modules.get("keras.src.backend.torch.layer")
    optimizers = sys.modules.get("keras.src.optimizers.base_optimizer")
    if layers is None or optimizers is None:
        return []
    return [
        _annotate(layers.TorchLayer, "forward", _layer_name),
        _annotate(optimizers.BaseOptimizer, "apply", lambda kind: f"Optimizer.step#{kind.__name__}.step"),
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
def _layer_name(kind: type) -> str | None:
    """Return the annotation of a layer that is an operator, or derived from one; None for any other."""
    names = (f"{LAYER}{base.__name__}" for base in kind.__mro__ if base.__module__.startswith("keras."))
    return next((name for name in names if lookup().layer(name)), None)
