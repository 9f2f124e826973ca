"""Lists the hooks in TensorFlow and Keras that detect the end of a step, and where the first begins, in any script.

Each `install` patches one object and returns a function that restores the original. Hooks send ids only: they keep no
tensor, model, graph or function alive. No framework is imported in this package.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from unified_profiler.spi import HookRole, StepHook
from unified_profiler.spi.patching import Report, SharedPatch, Undo
from unified_profiler_tensorflow.steps.functions import (
    FUNCTIONS,
    OPTIMIZERS,
    after_gradient,
    after_optimizer,
    after_optimizer_created,
    at_tape,
)
from unified_profiler_tensorflow.steps.keras import (
    LAYERS,
    after_evaluation_batch,
    after_train_batch,
    at_evaluation,
    at_training_begin,
)
from unified_profiler_tensorflow.steps.sessions import RUNS
from unified_profiler_tensorflow.steps.training import CALL_BEGINS, CALL_ENDS, CallSignal, TrainingEvidence

TRAINER_PRIORITY = -1
"""Priority of a trainer's own end-of-step signals, which are more reliable than the optimizer it uses."""


def _before_profiler_start(module: ModuleType, report: Report) -> Undo:
    """Wrap the function that starts native profiling, under all names by which TensorFlow exports it."""
    original = module.start

    @functools.wraps(original)
    def start(*args: Any, **kwargs: Any) -> Any:
        report(id(original))
        return original(*args, **kwargs)

    _rebind("start", original, start)
    return lambda: _rebind("start", start, original)


def _rebind(name: str, old: object, new: object) -> None:
    """Replace a function in every module that contains it."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is old:
            setattr(module, name, new)


def _call_hooks(
    signal: str, module: str, calls: SharedPatch[CallSignal], kinds: Iterable[TrainingEvidence]
) -> Iterator[StepHook]:
    for kind in kinds:
        training = kind is not TrainingEvidence.NONE
        yield StepHook(signal=signal, priority=kind, module=module, install=calls.listener(kind), training=training)


_FUNCTIONS = "tensorflow.python.eager.polymorphic_function.polymorphic_function"
_SESSIONS = "tensorflow.python.client.session"
_GRADIENTS = "tensorflow.python.eager.backprop"
_LAYERS = "keras.src.layers.layer"
_KERAS = ("keras.src.callbacks.callback_list", "tf_keras.src.callbacks")

STEP_HOOKS: tuple[StepHook, ...] = (
    StepHook(
        signal="profiler",
        role=HookRole.PROFILER_WANTED,
        module="tensorflow.python.profiler.profiler_v2",
        install=_before_profiler_start,
    ),
    *(
        StepHook(signal="optimizer made", role=HookRole.STEPS_EXPECTED, module=name, install=after_optimizer_created)
        for name in OPTIMIZERS
    ),
    *(StepHook(signal="keras", priority=TRAINER_PRIORITY, module=name, install=after_train_batch) for name in _KERAS),
    *(
        StepHook(signal="keras", priority=TRAINER_PRIORITY, module=name, install=after_evaluation_batch, training=False)
        for name in _KERAS
    ),
    *(
        StepHook(signal="evaluation", role=role, module=name, install=at_evaluation(moment))
        for name in _KERAS
        for moment, role in (("begin", HookRole.EVALUATION_BEGIN), ("end", HookRole.EVALUATION_END))
    ),
    *(StepHook(signal="optimizer", priority=0, module=name, install=after_optimizer) for name in OPTIMIZERS),
    *_call_hooks("function", _FUNCTIONS, FUNCTIONS, TrainingEvidence),
    StepHook(signal="backward", priority=1, module=_GRADIENTS, install=after_gradient),
    *_call_hooks("session", _SESSIONS, RUNS, (TrainingEvidence.OPTIMIZER, TrainingEvidence.NONE)),
    StepHook(
        signal="forward",
        priority=3,
        module=_LAYERS,
        install=LAYERS.listener(CALL_ENDS),
        training=False,
        costly=True,
    ),
    *(StepHook(signal="fit", role=HookRole.LOOP_BEGIN, module=name, install=at_training_begin) for name in _KERAS),
    *(
        StepHook(
            signal="evaluation",
            role=HookRole.LOOP_BEGIN,
            module=name,
            install=at_evaluation("begin"),
            training=False,
        )
        for name in _KERAS
    ),
    StepHook(signal="tape", role=HookRole.CALL_BEGIN, module=_GRADIENTS, install=at_tape),
    StepHook(
        signal="call",
        role=HookRole.CALL_BEGIN,
        module=_FUNCTIONS,
        install=FUNCTIONS.listener(CALL_BEGINS),
    ),
    StepHook(signal="call", role=HookRole.CALL_BEGIN, module=_SESSIONS, install=RUNS.listener(CALL_BEGINS)),
    StepHook(
        signal="call",
        role=HookRole.CALL_BEGIN,
        priority=3,
        module=_LAYERS,
        install=LAYERS.listener(CALL_BEGINS),
        training=False,
        costly=True,
    ),
)
"""Those that end steps are ordered by the reliability of their signals, the most reliable first."""


def step_hooks() -> tuple[StepHook, ...]:
    """Return the hooks that detect the ends of steps."""
    return STEP_HOOKS
