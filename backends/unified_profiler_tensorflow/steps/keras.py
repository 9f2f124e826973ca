"""Hooks Keras to detect steps: the batches of its trainers, and direct calls of models.

Keras 3 is hooked whatever its backend, and tf_keras in both eager and graph mode.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import FrameType, ModuleType
from typing import Any

from unified_profiler.spi.patching import Inside, Report, SharedPatch, Undo, outermost, replace, undo_all
from unified_profiler_tensorflow.steps.training import CALL_BEGINS, CALL_ENDS


def after_train_batch(module: ModuleType, report: Report) -> Undo:
    """Report each batch of `fit`."""
    return _after_batch(module.CallbackList, report, "train")


def after_evaluation_batch(module: ModuleType, report: Report) -> Undo:
    """Report each batch of `evaluate`, including the validation in `fit`, and of `predict`."""
    return _after_batch(module.CallbackList, report, "test", "predict")


def at_training_begin(module: ModuleType, report: Report) -> Undo:
    """Report the beginning of each `fit`."""
    return _after_callbacks(module.CallbackList, report, "on_train_begin")


def at_evaluation(moment: str) -> Callable[[ModuleType, Report], Undo]:
    """Return a hook for the begin or end of `evaluate`, including the validation in `fit`, and of `predict`."""

    def install(module: ModuleType, report: Report) -> Undo:
        return _after_callbacks(module.CallbackList, report, f"on_test_{moment}", f"on_predict_{moment}")

    return install


def _after_callbacks(owner: Any, report: Report, *names: str) -> Undo:
    return undo_all(*(replace(owner, name, _report_after(vars(owner)[name], report, Inside())) for name in names))


def _after_batch(owner: Any, report: Report, *modes: str) -> Undo:
    """Wrap the callback list instead of adding a callback, which would change how Keras calls the user's own."""

    def is_end(mode: str, hook: str, *_: Any, **__: Any) -> bool:
        return hook == "end" and mode in modes

    inside = Inside()
    names = [f"on_{mode}_batch_end" for mode in modes]
    undoings = [replace(owner, name, _report_after(vars(owner)[name], report, inside)) for name in names]
    if hasattr(owner, _GRAPH_MODE):
        undoings.append(replace(owner, _GRAPH_MODE, _report_after(vars(owner)[_GRAPH_MODE], report, inside, is_end)))
    return undo_all(*undoings)


_GRAPH_MODE = "_call_batch_hook"
"""A method of tf_keras; called by `fit` in graph mode (`tf.compat.v1.disable_eager_execution`), else by `on_*`."""

_ONE_SOURCE = 0
"""The sender id of all batches: each ends a step, whichever model and callback list it belongs to."""


def _report_after(
    original: Callable[..., Any], report: Report, inside: Inside, is_end: Callable[..., bool] = lambda *_, **__: True
) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with outermost(inside, self) as first:
            result = original(self, *args, **kwargs)
        if first and is_end(*args, **kwargs):
            report(_ONE_SOURCE)
        return result

    return call


def is_inside_fit(frame: FrameType | None) -> bool:
    """Return whether Keras's own training loop is on the stack: its batches are then the only steps."""
    while frame is not None:
        if frame.f_code.co_name == "fit" and _is_keras(frame):
            return True
        frame = frame.f_back
    return False


def is_created_by_keras(frame: FrameType | None) -> bool:
    """Return whether the nearest caller outside the optimizer classes is Keras."""
    while frame is not None and _is_keras(frame) and "optimizer" in frame.f_globals["__name__"]:
        frame = frame.f_back
    return frame is not None and _is_keras(frame)


def _is_keras(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(("keras.src.", "tf_keras.src."))


def _wrap_layers(module: ModuleType, listeners: Mapping[str, Report]) -> Undo:
    """Report outermost calls of layers and models with data, not those that build a model or a graph."""
    original = vars(module.Layer)["__call__"]
    inside = Inside()
    is_compiling = torch_compile_check()

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if is_compiling() or inside.now is not None or not is_eager():
            return original(self, *args, **kwargs)
        has_data = not module.any_symbolic_tensors(args, kwargs)
        send(CALL_BEGINS, self, has_data)
        with outermost(inside, self):
            result = original(self, *args, **kwargs)
        send(CALL_ENDS, self, has_data)
        return result

    def send(signal: str, layer: Any, has_data: bool) -> None:
        if has_data and (report := listeners.get(signal)) is not None:
            report(id(layer))

    return replace(module.Layer, "__call__", __call__)


LAYERS = SharedPatch(_wrap_layers)
"""Outermost calls of layers and models."""


# --- where Keras runs ---------------------------------------------------------------------------------------------


def is_traced() -> bool:
    """Return whether a tf.function is being traced; Keras may run without TensorFlow."""
    ops = sys.modules.get("tensorflow.python.framework.ops")
    return ops is not None and bool(ops.inside_function())


def is_eager() -> bool:
    """Return whether operators are executed immediately instead of being added to a graph."""
    context = sys.modules.get("tensorflow.python.eager.context")
    return context is None or bool(context.executing_eagerly())


def torch_compile_check() -> Callable[[], bool]:
    """Return a function that checks whether torch.compile is tracing the caller: a wrapper must then do nothing."""
    torch = sys.modules.get("torch")
    return (lambda: False) if torch is None else torch.compiler.is_compiling
