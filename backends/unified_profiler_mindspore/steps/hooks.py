"""The places in MindSpore from which the end of a step can be told in a script that does not call `step()`.

Each `install` hooks one place and returns what puts the identical object back. Hooks send ids only: they keep no
tensor, Cell or optimizer alive. None of them is seen by the graph compiler, which reads `construct` and the source of
functions, never `__call__`.

Not followed: graphs run by `_jit_begin`/`_jit_end` and by `mindspore.graph.api._frontend_compile`, both private to
MindSpore, and calls of operators outside any Cell or compiled function.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from unified_profiler.spi import HookRole, StepHook
from unified_profiler.spi.patching import (
    Invoke,
    Report,
    SharedPatch,
    Undo,
    replace,
    report_instances,
    undo_all,
    wrap_method,
)
from unified_profiler_mindspore.record.optimizer_search import OPTIMIZER_MODULES, has_optimizer, works_with_optimizer

Listeners = Mapping[str, Report]

OPTIMIZER, JIT, FORWARD, EVALUATION = "optimizer", "jit", "forward", "forward in evaluation"


class _Work(threading.local):
    """What MindSpore does on this thread, from the outermost call that enters it to the end of that call.

    Attributes:
        depth: How many of the calls that are hooked are open; only the outermost one ends a step.
        updated: Whether an optimizer ran within it, seen or in a graph.
    """

    depth = 0
    updated = False

    def begin(self) -> bool:
        """Enter a call and say whether it is the outermost."""
        self.depth += 1
        if self.depth > 1:
            return False
        self.updated = False
        return True

    def end(self) -> None:
        """Leave the call."""
        self.depth -= 1


_work = _Work()


# --- Model.train, Model.fit, Model.eval -------------------------------------------------------------------------------


def _after_training_step(module: ModuleType, report: Report) -> Undo:
    """Tell the end of a training step after all callbacks have run; what goes on within one ends no steps."""
    owner = module.CallbackManager
    enter, leave = owner.__enter__, owner.__exit__

    @functools.wraps(enter)
    def __enter__(self: Any) -> Any:  # noqa: N807
        entered = enter(self)
        _work.begin()
        return entered

    @functools.wraps(leave)
    def __exit__(self: Any, *error: Any) -> Any:  # noqa: N807
        _work.end()
        return leave(self, *error)

    return undo_all(
        replace(owner, "__enter__", __enter__),
        replace(owner, "__exit__", __exit__),
        _after_callbacks(owner, "on_train_step_end", report),
    )


def _after_evaluation_step(module: ModuleType, report: Report) -> Undo:
    return _after_callbacks(module.CallbackManager, "on_eval_step_end", report)


def _at_evaluation(moment: str) -> Callable[[ModuleType, Report], Undo]:
    """Make the hook of the beginning or end of `Model.eval`, the evaluation in a `Model.fit` included."""
    return lambda module, report: _after_callbacks(module.CallbackManager, f"on_eval_{moment}", report)


def _after_callbacks(owner: Any, name: str, report: Report) -> Undo:
    original = vars(owner)[name]

    @functools.wraps(original)
    def step_end(self: Any, run_context: Any) -> Any:
        result = original(self, run_context)
        report(id(run_context.original_args().get("network")))  # of the Model: the manager is another one in each call
        return result

    return replace(owner, name, step_end)


# --- calls of Cells, optimizers and compiled functions ----------------------------------------------------------------


def _wrap_cells(module: ModuleType, listeners: Listeners) -> Undo:
    """Wrap the call of every Cell; a graph loaded from a file has one of its own."""

    def ended(cell: Any) -> None:
        in_graph = module.context._get_mode() == module.context.GRAPH_MODE
        if _work.updated or (in_graph and has_optimizer(cell)):
            _send(listeners, OPTIMIZER, id(cell))
        _send(listeners, FORWARD if cell.training else EVALUATION, id(cell))

    return undo_all(*(_wrap_call(owner, ended) for owner in (module.Cell, module.GraphCell)))


def _wrap_call(owner: Any, ended: Callable[[Any], None]) -> Undo:
    original = owner.__call__

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if _work.depth:
            return original(self, *args, **kwargs)
        _work.begin()
        try:
            result = original(self, *args, **kwargs)
        finally:
            _work.end()
        ended(self)
        return result

    return replace(owner, "__call__", __call__)


def _wrap_optimizer(module: ModuleType, listeners: Listeners) -> Undo:
    """Watch the call of optimizers, which are Cells that inherit theirs; a recorder may be watching it, too."""

    def around(invoke: Invoke, optimizer: Any, _: tuple[Any, ...]) -> Any:
        outermost = _work.begin()
        try:
            result = invoke()
        finally:
            _work.end()
        _work.updated = True
        if outermost:
            _send(listeners, OPTIMIZER, id(optimizer))
        return result

    return wrap_method(module.Optimizer, "__call__", around)


def _wrap_jit(module: ModuleType, listeners: Listeners) -> Undo:
    """Wrap the running of functions that `ms.jit` compiles from their source; each call makes its own executor."""
    owner = module._JitExecutor
    original = owner.__call__

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        outermost = _work.begin()
        try:
            result = original(self, *args, **kwargs)
        finally:
            _work.end()
        _graph_ended(listeners, id(self.fn), outermost=outermost, updates=works_with_optimizer(self.fn, self.obj))
        return result

    return replace(owner, "__call__", __call__)


def _wrap_bytecode_jit(module: ModuleType, listeners: Listeners) -> Undo:
    """Wrap the context in which functions run that `ms.jit(capture_mode="bytecode")` compiles."""
    owner = module.PIJitCaptureContext
    enter, leave = owner.__enter__, owner.__exit__

    @functools.wraps(enter)
    def __enter__(self: Any) -> Any:  # noqa: N807
        _work.begin()
        return enter(self)

    @functools.wraps(leave)
    def __exit__(self: Any, kind: Any, error: Any, traceback: Any) -> Any:  # noqa: N807
        left = leave(self, kind, error, traceback)
        _work.end()
        if kind is None:
            _graph_ended(listeners, id(self.fn), outermost=not _work.depth, updates=works_with_optimizer(self.fn))
        return left

    return undo_all(replace(owner, "__enter__", __enter__), replace(owner, "__exit__", __exit__))


def _wrap_trace_jit(module: ModuleType, listeners: Listeners) -> Undo:
    """Wrap the two ends of what `ms.jit(capture_mode="trace")` traces or, once it is compiled, runs.

    An optimizer in it is seen while tracing. MindSpore traces one function at a time, whatever the thread, and after a
    function that raised while it was traced it traces no more: then nothing is told any more, either.
    """
    begin, end = module._jit_trace_begin, module._jit_trace_end
    with_optimizer: set[str] = set()
    current: tuple[str, bool] = ("", False)

    @functools.wraps(begin)
    def _jit_trace_begin(fn_name: str, *args: Any, **kwargs: Any) -> Any:
        nonlocal current
        begun = begin(fn_name, *args, **kwargs)
        _work.begin()
        current, _work.updated = (fn_name, _work.updated), False
        return begun

    @functools.wraps(end)
    def _jit_trace_end(*args: Any, **kwargs: Any) -> Any:
        try:
            result = end(*args, **kwargs)
        finally:
            _work.end()
        name, before = current
        if _work.updated:
            with_optimizer.add(name)
        _work.updated = before
        _graph_ended(listeners, hash(name), outermost=not _work.depth, updates=name in with_optimizer)
        return result

    return undo_all(
        replace(module, "_jit_trace_begin", _jit_trace_begin),
        replace(module, "_jit_trace_end", _jit_trace_end),
    )


def _send(listeners: Listeners, signal: str, source: int) -> None:
    report = listeners.get(signal)
    if report is not None:
        report(source)


def _graph_ended(listeners: Listeners, source: int, *, outermost: bool, updates: bool) -> None:
    _work.updated = _work.updated or updates
    if not outermost:
        return
    if _work.updated:
        _send(listeners, OPTIMIZER, source)
    _send(listeners, JIT, source)


# --- what ends no step ------------------------------------------------------------------------------------------------


def _optimizer_made(module: ModuleType, report: Report) -> Undo:
    return report_instances(module.Optimizer, report)


def _profiler_wanted(module: ModuleType, report: Report) -> Undo:
    """All of MindSpore's profilers begin here: profile, Profiler, DynamicProfilerMonitor and MS_PROFILER_OPTIONS."""
    original = vars(module.ProfilerInterface)["init"]

    @functools.wraps(original.__func__)
    def init(cls: Any) -> Any:
        report(id(cls))
        return original.__func__(cls)

    return replace(module.ProfilerInterface, "init", classmethod(init))


_CELLS, _JITS, _BYTECODE_JITS, _TRACE_JITS = map(
    SharedPatch, (_wrap_cells, _wrap_jit, _wrap_bytecode_jit, _wrap_trace_jit)
)
_OPTIMIZERS = {name: SharedPatch(_wrap_optimizer) for name in OPTIMIZER_MODULES}
_CALLBACKS = "mindspore.train.callback._callback"
_GRAPHS = {
    "mindspore.graph.api": _JITS,
    "mindspore.graph._utils.pijit_context": _BYTECODE_JITS,
    "mindspore.graph.jit_trace": _TRACE_JITS,
}


STEP_HOOKS: tuple[StepHook, ...] = (
    StepHook(
        signal="profiler",
        role=HookRole.PROFILER_WANTED,
        module="mindspore.profiler.profiler_interface",
        install=_profiler_wanted,
    ),
    *(
        StepHook(signal="optimizer made", role=HookRole.STEPS_EXPECTED, module=module, install=_optimizer_made)
        for module in OPTIMIZER_MODULES
    ),
    StepHook(signal="model", priority=-1, module=_CALLBACKS, install=_after_training_step),
    StepHook(signal="model", priority=-1, module=_CALLBACKS, install=_after_evaluation_step, training=False),
    *(
        StepHook(signal="evaluation", role=role, module=_CALLBACKS, install=_at_evaluation(moment))
        for moment, role in (("begin", HookRole.EVALUATION_BEGIN), ("end", HookRole.EVALUATION_END))
    ),
    *(
        StepHook(signal="optimizer", priority=0, module=module, install=place.listener(OPTIMIZER))
        for module, place in {**_OPTIMIZERS, "mindspore.nn.cell": _CELLS, **_GRAPHS}.items()
    ),
    *(
        StepHook(signal="jit", priority=2, module=module, install=place.listener(JIT))
        for module, place in _GRAPHS.items()
    ),
    StepHook(signal="forward", priority=3, module="mindspore.nn.cell", install=_CELLS.listener(FORWARD), costly=True),
    StepHook(
        signal="forward",
        priority=3,
        module="mindspore.nn.cell",
        install=_CELLS.listener(EVALUATION),
        training=False,
        costly=True,
    ),
)
"""In the order in which MindSpore's signals can be trusted."""


def step_hooks() -> tuple[StepHook, ...]:
    """Return the hooks by which the ends of steps are found."""
    return STEP_HOOKS
