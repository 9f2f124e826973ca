"""The places in TensorFlow and Keras from which the end of a step can be told in a script that does not call `step()`.

Each `install` hooks one place and returns what puts the identical object back. Hooks send ids only: they keep no
tensor, model, graph or function alive. No framework is imported here or in the modules beside this one.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from unified_profiler.spi import HookRole, StepHook
from unified_profiler.spi.patching import Report, Undo
from unified_profiler_tensorflow.steps.functions import (
    FUNCTIONS,
    OPTIMIZERS,
    after_gradient,
    after_optimizer,
    optimizer_made,
)
from unified_profiler_tensorflow.steps.keras import (
    after_evaluation_batch,
    after_layer,
    after_train_batch,
    at_evaluation,
)
from unified_profiler_tensorflow.steps.sessions import RUNS
from unified_profiler_tensorflow.steps.training import Trains

TRAINER_PRIORITY = -1
"""Of signals by which a trainer itself says where its steps end: surer than an optimizer within it."""


def _profiler_wanted(module: ModuleType, report: Report) -> Undo:
    """Wrap the function that begins native profiling, under all names by which TensorFlow offers it."""
    original = module.start

    @functools.wraps(original)
    def start(*args: Any, **kwargs: Any) -> Any:
        report(id(original))
        return original(*args, **kwargs)

    _rebind("start", original, start)
    return lambda: _rebind("start", start, original)


def _rebind(name: str, old: object, new: object) -> None:
    """Put a function in the place of another in every module that has it."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is old:
            setattr(module, name, new)


_FUNCTIONS = "tensorflow.python.eager.polymorphic_function.polymorphic_function"
_SESSIONS = "tensorflow.python.client.session"
_KERAS = ("keras.src.callbacks.callback_list", "tf_keras.src.callbacks")

STEP_HOOKS: tuple[StepHook, ...] = (
    StepHook(
        signal="profiler",
        role=HookRole.PROFILER_WANTED,
        module="tensorflow.python.profiler.profiler_v2",
        install=_profiler_wanted,
    ),
    *(
        StepHook(signal="optimizer made", role=HookRole.STEPS_EXPECTED, module=name, install=optimizer_made)
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
    *(
        StepHook(
            signal="function",
            priority=kind,
            module=_FUNCTIONS,
            install=FUNCTIONS.listener(kind),
            training=kind is not Trains.NOT,
        )
        for kind in Trains
    ),
    StepHook(signal="backward", priority=1, module="tensorflow.python.eager.backprop", install=after_gradient),
    *(
        StepHook(
            signal="session",
            priority=kind,
            module=_SESSIONS,
            install=RUNS.listener(kind),
            training=kind is not Trains.NOT,
        )
        for kind in (Trains.BY_OPTIMIZER, Trains.NOT)
    ),
    StepHook(
        signal="forward", priority=3, module="keras.src.layers.layer", install=after_layer, training=False, costly=True
    ),
)
"""In the order in which the signals of TensorFlow and Keras can be trusted."""


def step_hooks() -> tuple[StepHook, ...]:
    """Return the hooks by which the ends of steps are found."""
    return STEP_HOOKS
