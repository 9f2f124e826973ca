"""The places in torch from which the end of a step can be told in a script that does not call `step()`.

Each `install` hooks one place and returns what puts the identical object back. Hooks send ids only: they keep no
tensor, model or optimizer alive, and they leave the frames that torch.compile traces alone.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Mapping
from enum import Enum
from types import FrameType, ModuleType
from typing import Any

from unified_profiler.spi import HookRole, StepHook
from unified_profiler.spi.call_sites import call_site
from unified_profiler.spi.patching import Inside, Report, SharedPatch, Undo, replace, report_instances

_fetch = Inside()
"""Set while a DataLoader makes a batch on this thread: modules called there transform data, they make no steps."""


class _Updates(threading.local):
    """How many optimizer steps ended on this thread."""

    count = 0


_updates = _Updates()


def _after_optimizer_step(module: ModuleType, report: Report) -> Undo:
    """Use torch's own global hook; only the outermost of nested `step()` calls ends a step.

    Steps taken by hooks of the backward pass are told after it: no profiler can be started or stopped within.
    """
    import torch

    within_backward: list[int] = []
    original = torch.autograd.backward

    def ended(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        _updates.count += 1
        if not _is_outermost(sys._getframe(1), module.__file__):
            return
        if torch._C._current_graph_task_id() != _NO_BACKWARD:
            within_backward.append(id(optimizer))
        else:
            report(id(optimizer))

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            while within_backward and torch._C._current_graph_task_id() == _NO_BACKWARD:
                report(within_backward.pop(0))

    for hook in (ended, backward):  # a compiled step() calls them, but does not trace them
        hook.__dict__["_torchdynamo_disable"] = True
    handle = module.register_optimizer_step_post_hook(ended)
    restore = replace(torch.autograd, "backward", backward)

    def undo() -> None:
        handle.remove()
        restore()

    return undo


_NO_BACKWARD = -1


def _is_outermost(frame: FrameType | None, filename: str | None) -> bool:
    """Walk the stack instead of counting calls: a `step()` that raises would leave a count wrong."""
    found = 0
    while frame is not None:
        code = frame.f_code
        if code.co_name == "wrapper" and code.co_filename == filename:
            found += 1
            if found > 1:
                return False
        frame = frame.f_back
    return True


def _optimizer_made(module: ModuleType, report: Report) -> Undo:
    return report_instances(module.Optimizer, report)


def _profiler_wanted(module: ModuleType, report: Report) -> Undo:
    """Both `torch.profiler.profile` and `torch.autograd.profiler.profile` begin here."""
    original = module.profile._prepare_trace

    @functools.wraps(original)
    def _prepare_trace(self: Any) -> Any:
        report(id(self))
        return original(self)

    return replace(module.profile, "_prepare_trace", _prepare_trace)


def _after_backward(module: ModuleType, report: Report) -> Undo:
    """Tell the calls apart by the line that makes them, so that of two losses in one step the last one ends it."""
    original = module.backward
    inside = Inside()

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if inside.now:  # checkpointing runs a backward pass within the backward pass
            return original(*args, **kwargs)
        inside.now = True
        try:
            result = original(*args, **kwargs)
        finally:
            inside.now = None
        if not _fetch.now:
            report(call_site(sys._getframe(1), package="torch"))
        return result

    backward._torchdynamo_disable = True  # type: ignore[attr-defined]
    return replace(module, "backward", backward)


def _before_next_batch(module: ModuleType, report: Report) -> Undo:
    """Asking for another batch, or finding that there is none, ends the step that the last batch began."""
    owner = module._BaseDataLoaderIter
    original = owner.__next__

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807
        if self._num_yielded:
            report(id(self._index_sampler))  # of the loader: the iterator is another one in each epoch
        outer, _fetch.now = _fetch.now, True
        try:
            return original(self)
        finally:
            _fetch.now = outer

    __next__._torchdynamo_disable = True  # type: ignore[attr-defined]
    return replace(owner, "__next__", __next__)


class _Call(Enum):
    """What the outermost call of a module is, as far as the module shows."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    WITHOUT_PARAMETERS = "without parameters"
    """A transform of data, a loss, or a model that learns nothing: its mode means nothing either."""

    @classmethod
    def of(cls, module: Any) -> _Call:
        """Classify a module."""
        if next(module.parameters(), None) is None:
            return cls.WITHOUT_PARAMETERS
        return cls.TRAINING if module.training else cls.EVALUATION


def _wrap_call(module: ModuleType, listeners: Mapping[_Call, Report]) -> Undo:
    """Wrap `Module.__call__`: global forward hooks cost ten times as much, and torch.compile would trace them."""
    import torch

    original = module.Module.__call__
    inside = Inside()

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if torch.compiler.is_compiling() or inside.now or _fetch.now:
            return original(self, *args, **kwargs)
        inside.now = True
        try:
            result = original(self, *args, **kwargs)
        finally:
            inside.now = None
        report = listeners.get(_Call.of(self))
        if report is not None:
            report(id(self))
        return result

    return replace(module.Module, "__call__", __call__)


_CALLS = SharedPatch(_wrap_call)


# --- gradient scaling -------------------------------------------------------------------------------------------------


def _after_skipped_update(module: ModuleType, report: Report) -> Undo:
    """Report `GradScaler.step` calls that leave the optimizer out, since gradients overflowed."""
    owner = module.GradScaler
    original = owner.step

    @functools.wraps(original)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = _updates.count
        result = original(self, optimizer, *args, **kwargs)
        if _updates.count == before:
            report(id(optimizer))
        return result

    step._torchdynamo_disable = True  # type: ignore[attr-defined]
    return replace(owner, "step", step)


_MODULES = "torch.nn.modules.module"

STEP_HOOKS: tuple[StepHook, ...] = (
    StepHook(
        signal="profiler",
        role=HookRole.PROFILER_WANTED,
        module="torch.autograd.profiler",
        install=_profiler_wanted,
    ),
    StepHook(
        signal="optimizer made",
        role=HookRole.STEPS_EXPECTED,
        module="torch.optim.optimizer",
        install=_optimizer_made,
    ),
    StepHook(signal="optimizer", priority=0, module="torch.optim.optimizer", install=_after_optimizer_step),
    StepHook(signal="optimizer", priority=0, module="torch.amp.grad_scaler", install=_after_skipped_update),
    StepHook(signal="backward", priority=1, module="torch.autograd", install=_after_backward),
    StepHook(
        signal="dataloader",
        priority=2,
        module="torch.utils.data.dataloader",
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
)
"""In the order in which torch's signals can be trusted."""


def step_hooks() -> tuple[StepHook, ...]:
    """Return the hooks by which the ends of steps are found."""
    return STEP_HOOKS
