"""Hooks into torch that detect the end of a step, and where the first begins, in scripts that do not call `step()`.

Each `install` patches one function and returns a function that restores the identical object. Hooks report ids only, so
they keep no tensor, model or optimizer alive, and they do not affect frames that torch.compile traces.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping
from enum import Enum
from types import ModuleType
from typing import Any, TypeAlias

from unified_profiler.spi import HookRole, StepHook
from unified_profiler.spi.call_sites import call_site
from unified_profiler.spi.patching import (
    Inside,
    Invoke,
    Report,
    SharedPatch,
    Undo,
    outermost,
    replace,
    report_instances,
    undo_all,
    wrap_method,
)

_fetch = Inside()
"""Set while a DataLoader loads a batch on this thread: modules called there transform data and are not steps."""
_NO_BACKWARD = -1


class _Updates(threading.local):
    """Number of optimizer steps that ended on this thread."""

    count = 0


_updates = _Updates()


def _untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let compiled code call the function without tracing it."""
    function.__dict__["_torchdynamo_disable"] = True
    return function


def _after_optimizer_step(module: ModuleType, report: Report) -> Undo:
    """Report updates; those by hooks of the backward pass after its end, since no profiler can start or stop inside."""
    import torch

    pending: list[int] = []
    original = torch.autograd.backward

    def updated(optimizer: int) -> None:
        if torch._C._current_graph_task_id() != _NO_BACKWARD:
            pending.append(optimizer)
        else:
            report(optimizer)

    @_untraced
    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            while pending and torch._C._current_graph_task_id() == _NO_BACKWARD:
                report(pending.pop(0))

    return undo_all(replace(torch.autograd, "backward", backward), _report_updates(module.Optimizer, updated))


def _report_updates(owner: type, report: Report) -> Undo:
    """Report the outermost of nested `step()` calls when it has returned, thus after torch's own annotation of it.

    A class is patched when an instance of it is made, since torch patches it then.
    """
    inside = Inside()
    patched: dict[type, Undo] = {}

    @_untraced
    def step(invoke: Invoke, optimizer: Any, _args: Any) -> Any:
        with outermost(inside, owner) as is_outermost:
            result = invoke()
        if is_outermost:
            _updates.count += 1
            report(id(optimizer))
        return result

    def created(invoke: Invoke, optimizer: Any, _args: Any) -> None:
        invoke()
        if type(optimizer) not in patched:
            patched[type(optimizer)] = wrap_method(type(optimizer), "step", step)

    def undo() -> None:
        while patched:
            patched.popitem()[1]()

    return undo_all(undo, wrap_method(owner, "__init__", created))


def _after_optimizer_created(module: ModuleType, report: Report) -> Undo:
    return report_instances(module.Optimizer, report)


def _before_profiler(module: ModuleType, report: Report) -> Undo:
    """Wrap the method that starts both `torch.profiler.profile` and `torch.autograd.profiler.profile`."""
    original = module.profile._prepare_trace

    @functools.wraps(original)
    def _prepare_trace(self: Any) -> Any:
        report(id(self))
        return original(self)

    return replace(module.profile, "_prepare_trace", _prepare_trace)


def _after_backward(module: ModuleType, report: Report) -> Undo:
    """Report backward passes by the line that calls them, so that the last of several losses ends the step."""
    original = module.backward
    inside = Inside()

    @_untraced
    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        # checkpointing runs a backward pass within the backward pass
        with outermost(inside, module) as is_outermost:
            result = original(*args, **kwargs)
        if is_outermost and not _fetch.now:
            report(call_site(sys._getframe(1), package="torch"))
        return result

    return replace(module, "backward", backward)


def _before_next_batch(module: ModuleType, report: Report) -> Undo:
    """Report each request for a batch after the first: it ends the step that the previous batch began."""
    owner = module._BaseDataLoaderIter
    original = owner.__next__

    @_untraced
    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807
        if self._num_yielded:
            report(id(self._index_sampler))  # the loader's: each epoch has another iterator
        outer, _fetch.now = _fetch.now, True
        try:
            return original(self)
        finally:
            _fetch.now = outer

    return replace(owner, "__next__", __next__)


class _Call(Enum):
    """Purpose of an outermost module call, judged by the module."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    WITHOUT_PARAMETERS = "without parameters"
    """A data transform, a loss, or a model without parameters; `training` of the module has no meaning then."""

    @property
    def beginning(self) -> tuple[_Call, str]:
        """The signal that such a call begins; the call itself stands for its end."""
        return self, "begins"

    @classmethod
    def of(cls, module: Any) -> _Call:
        """Classify a module."""
        if next(module.parameters(), None) is None:
            return cls.WITHOUT_PARAMETERS
        return cls.TRAINING if module.training else cls.EVALUATION


_CallSignal: TypeAlias = "_Call | tuple[_Call, str]"


def _wrap_call(module: ModuleType, listeners: Mapping[_CallSignal, Report]) -> Undo:
    """Wrap `Module.__call__`: global forward hooks cost ten times more, and torch.compile would trace them."""
    import torch

    original = module.Module.__call__
    inside = Inside()

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if torch.compiler.is_compiling() or inside.now or _fetch.now:
            return original(self, *args, **kwargs)
        call = _Call.of(self)
        send(call.beginning, self)
        inside.now = True
        try:
            result = original(self, *args, **kwargs)
        finally:
            inside.now = None
        send(call, self)
        return result

    def send(signal: _CallSignal, caller: Any) -> None:
        report = listeners.get(signal)
        if report is not None:
            report(id(caller))

    return replace(module.Module, "__call__", __call__)


_CALLS: SharedPatch[_CallSignal] = SharedPatch(_wrap_call)


def _after_skipped_update(module: ModuleType, report: Report) -> Undo:
    """Report `GradScaler.step` calls that skip the optimizer because gradients overflowed."""
    owner = module.GradScaler
    original = owner.step

    @_untraced
    @functools.wraps(original)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = _updates.count
        result = original(self, optimizer, *args, **kwargs)
        if _updates.count == before:
            report(id(optimizer))
        return result

    return replace(owner, "step", step)


_MODULES, _OPTIMIZERS, _LOADERS = "torch.nn.modules.module", "torch.optim.optimizer", "torch.utils.data.dataloader"

STEP_HOOKS: tuple[StepHook, ...] = (
    StepHook(
        signal="profiler", role=HookRole.PROFILER_WANTED, module="torch.autograd.profiler", install=_before_profiler
    ),
    StepHook(
        signal="optimizer made", role=HookRole.STEPS_EXPECTED, module=_OPTIMIZERS, install=_after_optimizer_created
    ),
    StepHook(signal="optimizer", priority=0, module=_OPTIMIZERS, install=_after_optimizer_step),
    StepHook(signal="optimizer", priority=0, module="torch.amp.grad_scaler", install=_after_skipped_update),
    StepHook(signal="backward", priority=1, module="torch.autograd", install=_after_backward),
    StepHook(
        signal="dataloader",
        priority=2,
        module=_LOADERS,
        install=_before_next_batch,
        of_model=False,
    ),
    StepHook(signal="forward", priority=3, module=_MODULES, install=_CALLS.listener(_Call.TRAINING), costly=True),
    StepHook(
        signal="forward",
        priority=3,
        module=_MODULES,
        install=_CALLS.listener(_Call.EVALUATION),
        training=False,
        costly=True,
    ),
    StepHook(
        signal="forward",
        priority=4,
        module=_MODULES,
        install=_CALLS.listener(_Call.WITHOUT_PARAMETERS),
        training=False,
        costly=True,
        of_model=False,
    ),
    StepHook(
        signal="loader",
        role=HookRole.LOOP_BEGIN,
        module=_LOADERS,
        install=lambda module, report: report_instances(module._BaseDataLoaderIter, report),
    ),
    *(
        StepHook(
            signal="call",
            role=HookRole.CALL_BEGIN,
            priority=3,
            module=_MODULES,
            install=_CALLS.listener(call.beginning),
            training=call is _Call.TRAINING,
            costly=True,
        )
        for call in (_Call.TRAINING, _Call.EVALUATION)
    ),
)
"""Those that end steps are ordered by the reliability of their signals, most reliable first."""


def step_hooks() -> tuple[StepHook, ...]:
    """Return the hooks that detect the ends of steps."""
    return STEP_HOOKS
