"""What Keras tells about steps: the batches of its trainers, and the calls of models by hand.

Keras 3 is hooked on whichever backend it runs, and tf_keras in both of its modes.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from unified_profiler.spi.patching import Inside, Report, Undo, outermost, replace, undo_all


def after_train_batch(module: ModuleType, report: Report) -> Undo:
    """Tell each batch of `fit`."""
    return _after_batch(module.CallbackList, report, "train")


def after_evaluation_batch(module: ModuleType, report: Report) -> Undo:
    """Tell each batch of `evaluate`, the validation in a `fit` included, and of `predict`."""
    return _after_batch(module.CallbackList, report, "test", "predict")


def at_evaluation(moment: str) -> Callable[[ModuleType, Report], Undo]:
    """Make the hook of the beginning or end of `evaluate`, the validation in a `fit` included, and of `predict`."""

    def install(module: ModuleType, report: Report) -> Undo:
        owner, names = module.CallbackList, (f"on_test_{moment}", f"on_predict_{moment}")
        return undo_all(*(replace(owner, name, _ending(vars(owner)[name], report, Inside())) for name in names))

    return install


def _after_batch(owner: Any, report: Report, *modes: str) -> Undo:
    """Wrap the list of callbacks rather than add a callback, which would change how Keras calls the user's own."""
    inside = Inside()
    undoings = [
        replace(owner, name, _ending(vars(owner)[name], report, inside))
        for name in (f"on_{mode}_batch_end" for mode in modes)
    ]
    if hasattr(owner, _GRAPH_MODE):
        undoings.append(replace(owner, _GRAPH_MODE, _ending_in_graph_mode(owner, report, inside, modes)))
    return undo_all(*undoings)


_GRAPH_MODE = "_call_batch_hook"
"""Of tf_keras, called by `fit` itself in graph mode (`tf.compat.v1.disable_eager_execution`), else by the above."""

_ONE_SOURCE = 0
"""Every batch of every model ends a step, whichever list of callbacks is told."""


def _ending(original: Callable[..., Any], report: Report, inside: Inside) -> Callable[..., Any]:
    @functools.wraps(original)
    def batch_end(self: Any, *args: Any, **kwargs: Any) -> Any:
        with outermost(inside, self) as first:
            result = original(self, *args, **kwargs)
        if first:
            report(_ONE_SOURCE)
        return result

    return batch_end


def _ending_in_graph_mode(owner: Any, report: Report, inside: Inside, modes: tuple[str, ...]) -> Callable[..., Any]:
    original = vars(owner)[_GRAPH_MODE]

    @functools.wraps(original)
    def _call_batch_hook(self: Any, mode: str, hook: str, *args: Any, **kwargs: Any) -> Any:
        with outermost(inside, self) as first:
            result = original(self, mode, hook, *args, **kwargs)
        if first and hook == "end" and mode in modes:
            report(_ONE_SOURCE)
        return result

    return _call_batch_hook


def within_fit(frame: FrameType | None) -> bool:
    """Walk the stack for Keras's own training loop: there its batches are the steps, whatever happens in them."""
    while frame is not None:
        if frame.f_code.co_name == "fit" and _is_keras(frame):
            return True
        frame = frame.f_back
    return False


def made_by_keras(frame: FrameType | None) -> bool:
    """Say whether the nearest caller outside the optimizers' own classes is Keras."""
    while frame is not None and _is_keras(frame) and "optimizer" in frame.f_globals["__name__"]:
        frame = frame.f_back
    return frame is not None and _is_keras(frame)


def _is_keras(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(("keras.src.", "tf_keras.src."))


def after_layer(module: ModuleType, report: Report) -> Undo:
    """Tell outermost calls of layers and models with data; calls that build a model or a graph are none."""
    original = vars(module.Layer)["__call__"]
    inside = Inside()
    compiling = torch_compiles()

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if compiling() or inside.now is not None or not is_eager():
            return original(self, *args, **kwargs)
        inside.now = self
        try:
            result = original(self, *args, **kwargs)
        finally:
            inside.now = None
        if not module.any_symbolic_tensors(args, kwargs):
            report(id(self))
        return result

    return replace(module.Layer, "__call__", __call__)


# --- where Keras runs ---------------------------------------------------------------------------------------------


def is_traced() -> bool:
    """Say whether a function of TensorFlow is being traced now; Keras may run without TensorFlow."""
    ops = sys.modules.get("tensorflow.python.framework.ops")
    return ops is not None and bool(ops.inside_function())


def is_eager() -> bool:
    """Say whether operators run at once, rather than be put into a graph."""
    context = sys.modules.get("tensorflow.python.eager.context")
    return context is None or bool(context.executing_eagerly())


def torch_compiles() -> Callable[[], bool]:
    """Return what says whether torch.compile is at work on the caller: then a wrapper must do nothing of its own."""
    torch = sys.modules.get("torch")
    return (lambda: False) if torch is None else torch.compiler.is_compiling
