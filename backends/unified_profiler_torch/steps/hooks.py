"""The places in torch from which the end of a step can be told in a script that does not call `step()`.

Each `install` hooks one place and returns what puts the identical object back. Hooks send ids only: they keep no
tensor, model or optimizer alive, and they leave the frames that torch.compile traces alone.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from unified_profiler.spi import HookRole, StepHook

Report = Callable[[int], None]
Undo = Callable[[], None]


class _Inside(threading.local):
    """Whether this thread is inside a hooked call already."""

    now = False


_fetch = _Inside()
"""Set while a DataLoader makes a batch on this thread: modules called there transform data, they make no steps."""


class _Updates(threading.local):
    """How many optimizer steps ended on this thread."""

    count = 0


_updates = _Updates()


def _replace(owner: Any, name: str, replacement: Callable[..., Any]) -> Undo:
    """Put a wrapper in the place of an attribute; the undoing leaves it if somebody else wrapped it meanwhile."""
    original = vars(owner)[name]
    setattr(owner, name, replacement)

    def undo() -> None:
        if vars(owner).get(name) is replacement:
            setattr(owner, name, original)

    return undo


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
    restore = _replace(torch.autograd, "backward", backward)

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
    original = module.Optimizer.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        report(id(self))

    return _replace(module.Optimizer, "__init__", __init__)


def _profiler_wanted(module: ModuleType, report: Report) -> Undo:
    """Both `torch.profiler.profile` and `torch.autograd.profiler.profile` begin here."""
    original = module.profile._prepare_trace

    @functools.wraps(original)
    def _prepare_trace(self: Any) -> Any:
        report(id(self))
        return original(self)

    return _replace(module.profile, "_prepare_trace", _prepare_trace)


def _after_backward(module: ModuleType, report: Report) -> Undo:
    """Tell the calls apart by the line that makes them, so that of two losses in one step the last one ends it."""
    original = module.backward
    inside = _Inside()

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if inside.now:  # checkpointing runs a backward pass within the backward pass
            return original(*args, **kwargs)
        inside.now = True
        try:
            result = original(*args, **kwargs)
        finally:
            inside.now = False
        if not _fetch.now:
            report(_call_site(sys._getframe(1)))
        return result

    backward._torchdynamo_disable = True  # type: ignore[attr-defined]
    return _replace(module, "backward", backward)


def _call_site(frame: FrameType | None) -> int:
    """Return a number for the nearest line outside torch, and of what traces its calls."""
    root = _torch_root()
    while frame is not None and (frame.f_code.co_filename.startswith(root) or _is_own(frame)):
        frame = frame.f_back
    return 0 if frame is None else _line(frame.f_code, frame.f_lineno)


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith("unified_profiler")


def _line(code: CodeType, number: int) -> int:
    return hash((code.co_filename, code.co_firstlineno, number))


@functools.cache
def _torch_root() -> str:
    return str(Path(sys.modules["torch"].__file__ or "torch").parent)


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
    return _replace(owner, "__next__", __next__)


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


def _after_forward(kind: _Call) -> Callable[[ModuleType, Report], Undo]:
    """Make the hook of one kind of outermost calls of modules; all kinds share one wrapper."""

    def install(module: ModuleType, report: Report) -> Undo:
        owner = module.Module
        if not hasattr(owner.__call__, _LISTENERS):
            _wrap_call(owner)
        wrapper = owner.__call__
        listeners: dict[_Call, Report] = getattr(wrapper, _LISTENERS)
        listeners[kind] = report

        def undo() -> None:
            listeners.pop(kind, None)
            if not listeners:
                getattr(wrapper, _RESTORE)()

        return undo

    return install


_LISTENERS, _RESTORE = "_step_listeners", "_step_restore"


def _wrap_call(owner: Any) -> None:
    """Wrap `Module.__call__`: global forward hooks cost ten times as much, and torch.compile would trace them."""
    import torch

    original = owner.__call__
    listeners: dict[_Call, Report] = {}
    inside = _Inside()

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if torch.compiler.is_compiling() or inside.now or _fetch.now:
            return original(self, *args, **kwargs)
        inside.now = True
        try:
            result = original(self, *args, **kwargs)
        finally:
            inside.now = False
        report = listeners.get(_Call.of(self))
        if report is not None:
            report(id(self))
        return result

    restore = _replace(owner, "__call__", __call__)
    setattr(owner.__call__, _LISTENERS, listeners)
    setattr(owner.__call__, _RESTORE, restore)


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
    return _replace(owner, "step", step)


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
    StepHook(signal="optimizer", rank=0, module="torch.optim.optimizer", install=_after_optimizer_step),
    StepHook(signal="optimizer", rank=0, module="torch.amp.grad_scaler", install=_after_skipped_update),
    StepHook(signal="backward", rank=1, module="torch.autograd", install=_after_backward),
    StepHook(
        signal="dataloader", rank=2, module="torch.utils.data.dataloader", install=_before_next_batch, of_model=False
    ),
    StepHook(signal="forward", rank=3, module=_MODULES, install=_after_forward(_Call.TRAINING), costly=True),
    StepHook(
        signal="forward", rank=3, module=_MODULES, install=_after_forward(_Call.EVALUATION), training=False, costly=True
    ),
    StepHook(
        signal="forward",
        rank=4,
        module=_MODULES,
        install=_after_forward(_Call.WITHOUT_PARAMETERS),
        training=False,
        costly=True,
        of_model=False,
    ),
)
"""In the order in which torch's signals can be trusted."""
