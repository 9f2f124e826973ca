"""Hooks into MindSpore that detect the end of a step, and where the first begins, in scripts that do not call `step()`.

Each `install` patches one function or method and returns a function that restores the identical object. Hooks report
ids only, so that they keep no tensor, Cell or optimizer alive. The graph compiler never sees them: it reads `construct`
and the source of functions, not `__call__`.

Not covered: graphs run by `_jit_begin`/`_jit_end` and by `mindspore.graph.api._frontend_compile`, both private to
MindSpore, and calls of operators outside of any Cell or compiled function.
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
from unified_profiler_mindspore.record.optimizer_search import OPTIMIZER_MODULES, has_optimizer, uses_optimizer

Listeners = Mapping[str, Report]

OPTIMIZER, JIT, FORWARD, EVALUATION = "optimizer", "jit", "forward", "forward in evaluation"
BEGIN, EVALUATION_BEGIN = "call begins", "call in evaluation begins"


class _HookedCalls(threading.local):
    """Tracks the hooked calls that are open on this thread; only the outermost one ends a step."""

    depth = 0
    updated = False
    """Whether an optimizer ran within the outermost call, called from Python or in a graph."""

    def enter(self) -> None:
        if not self.depth:
            self.updated = False
        self.depth += 1

    def leave(self) -> None:
        self.depth = max(self.depth - 1, 0)  # a hook may be installed within the call that it leaves

    def run(self, invoke: Invoke) -> Any:
        self.enter()
        try:
            return invoke()
        finally:
            self.leave()


_calls = _HookedCalls()


# --- Model.train, Model.fit, Model.eval -------------------------------------------------------------------------------


def _after_training_step(module: ModuleType, report: Report) -> Undo:
    """Report the end of a training step after all callbacks have run; calls within the training loop end no steps."""

    def enter(invoke: Invoke, *_: Any) -> Any:
        entered = invoke()
        _calls.enter()
        return entered

    def leave(invoke: Invoke, *_: Any) -> Any:
        _calls.leave()
        return invoke()

    return undo_all(
        wrap_method(module.CallbackManager, "__enter__", enter),
        wrap_method(module.CallbackManager, "__exit__", leave),
        _after_callbacks("on_train_step_end")(module, report),
    )


def _after_callbacks(name: str) -> Callable[[ModuleType, Report], Undo]:
    """Return a hook that reports after all callbacks of one kind have run, in `Model.fit` as well."""

    def install(module: ModuleType, report: Report) -> Undo:
        def around(invoke: Invoke, _: Any, args: tuple[Any, ...]) -> Any:
            result = invoke()
            report(id(args[0].original_args().get("network")))  # the manager is another object in each call
            return result

        return wrap_method(module.CallbackManager, name, around)

    return install


# --- calls of Cells, optimizers and compiled functions ----------------------------------------------------------------


def _wrap_cells(module: ModuleType, listeners: Listeners) -> Undo:
    """Wrap the call of every Cell; a graph loaded from a file has its own."""

    def report_end(cell: Any) -> None:
        in_graph = module.context._get_mode() == module.context.GRAPH_MODE
        if _calls.updated or (in_graph and has_optimizer(cell)):
            _send(listeners, OPTIMIZER, id(cell))
        _send(listeners, FORWARD if cell.training else EVALUATION, id(cell))

    def report_begin(cell: Any) -> None:
        _send(listeners, BEGIN if cell.training else EVALUATION_BEGIN, id(cell))

    return undo_all(*(_wrap_cell_call(owner, report_begin, report_end) for owner in (module.Cell, module.GraphCell)))


def _wrap_cell_call(owner: Any, report_begin: Callable[[Any], None], report_end: Callable[[Any], None]) -> Undo:
    """Wrap `__call__` without the overhead of `wrap_method`, since most calls are those of nested Cells."""
    original = owner.__call__

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if _calls.depth:
            return original(self, *args, **kwargs)
        report_begin(self)
        result = _calls.run(functools.partial(original, self, *args, **kwargs))
        report_end(self)
        return result

    return replace(owner, "__call__", __call__)


def _wrap_optimizer(module: ModuleType, listeners: Listeners) -> Undo:
    """Wrap the call of optimizers, which are Cells that inherit theirs; a recorder may wrap it as well."""

    def around(invoke: Invoke, optimizer: Any, _: tuple[Any, ...]) -> Any:
        result = _calls.run(invoke)
        _calls.updated = True
        if not _calls.depth:
            _send(listeners, OPTIMIZER, id(optimizer))
        return result

    return wrap_method(module.Optimizer, "__call__", around)


def _wrap_jit(module: ModuleType, listeners: Listeners) -> Undo:
    """Wrap the running of functions that `ms.jit` compiles from their source; each call creates its own executor."""

    def around(invoke: Invoke, executor: Any, _: tuple[Any, ...]) -> Any:
        _report_graph_begin(listeners)
        result = _calls.run(invoke)
        _report_graph(listeners, id(executor.fn), updates=uses_optimizer(executor.fn, executor.obj))
        return result

    return wrap_method(module._JitExecutor, "__call__", around)


def _wrap_bytecode_jit(module: ModuleType, listeners: Listeners) -> Undo:
    """Wrap the context in which functions run that `ms.jit(capture_mode="bytecode")` compiles."""

    def enter(invoke: Invoke, *_: Any) -> Any:
        _report_graph_begin(listeners)
        _calls.enter()
        return invoke()

    def leave(invoke: Invoke, context: Any, error: tuple[Any, ...]) -> Any:
        result = invoke()
        _calls.leave()
        if error[0] is None:
            _report_graph(listeners, id(context.fn), updates=uses_optimizer(context.fn))
        return result

    owner = module.PIJitCaptureContext
    return undo_all(wrap_method(owner, "__enter__", enter), wrap_method(owner, "__exit__", leave))


def _wrap_trace_jit(module: ModuleType, listeners: Listeners) -> Undo:
    """Wrap the functions that begin and end what `ms.jit(capture_mode="trace")` traces or, once compiled, runs.

    An optimizer in it is called while tracing. MindSpore traces one function at a time in all threads, and after one
    that raised while it was traced it traces no more, so that nothing is reported any more, either.
    """
    begin, end = module._jit_trace_begin, module._jit_trace_end
    with_optimizer: set[str] = set()
    current: tuple[str, bool] = ("", False)

    @functools.wraps(begin)
    def _jit_trace_begin(fn_name: str, *args: Any, **kwargs: Any) -> Any:
        nonlocal current
        _report_graph_begin(listeners)
        result = begin(fn_name, *args, **kwargs)
        _calls.enter()
        current, _calls.updated = (fn_name, _calls.updated), False
        return result

    @functools.wraps(end)
    def _jit_trace_end(*args: Any, **kwargs: Any) -> Any:
        try:
            result = end(*args, **kwargs)
        finally:
            _calls.leave()
        name, updated_before = current
        if _calls.updated:
            with_optimizer.add(name)
        _calls.updated = updated_before
        _report_graph(listeners, hash(name), updates=name in with_optimizer)
        return result

    return undo_all(
        replace(module, "_jit_trace_begin", _jit_trace_begin),
        replace(module, "_jit_trace_end", _jit_trace_end),
    )


def _send(listeners: Listeners, signal: str, source: int) -> None:
    if (report := listeners.get(signal)) is not None:
        report(source)


def _report_graph_begin(listeners: Listeners) -> None:
    if not _calls.depth:
        _send(listeners, BEGIN, 0)


def _report_graph(listeners: Listeners, source: int, *, updates: bool) -> None:
    _calls.updated = _calls.updated or updates
    if _calls.depth:
        return
    if _calls.updated:
        _send(listeners, OPTIMIZER, source)
    _send(listeners, JIT, source)


# --- signals that do not end a step -----------------------------------------------------------------------------------


def _profiler_wanted(module: ModuleType, report: Report) -> Undo:
    """Report the start of any MindSpore profiler: profile, Profiler, DynamicProfilerMonitor or MS_PROFILER_OPTIONS."""
    original = vars(module.ProfilerInterface)["init"]

    @functools.wraps(original.__func__)
    def init(cls: Any) -> Any:
        report(id(cls))
        return original.__func__(cls)

    return replace(module.ProfilerInterface, "init", classmethod(init))


_CELL, _CALLBACKS = "mindspore.nn.cell", "mindspore.train.callback._callback"
_CELLS = SharedPatch(_wrap_cells)
_GRAPHS = {
    "mindspore.graph.api": SharedPatch(_wrap_jit),
    "mindspore.graph._utils.pijit_context": SharedPatch(_wrap_bytecode_jit),
    "mindspore.graph.jit_trace": SharedPatch(_wrap_trace_jit),
}
_UPDATES = {**{name: SharedPatch(_wrap_optimizer) for name in OPTIMIZER_MODULES}, _CELL: _CELLS, **_GRAPHS}

STEP_HOOKS: tuple[StepHook, ...] = (
    StepHook(
        signal="profiler",
        role=HookRole.PROFILER_WANTED,
        module="mindspore.profiler.profiler_interface",
        install=_profiler_wanted,
    ),
    *(
        StepHook(
            signal="optimizer made",
            role=HookRole.STEPS_EXPECTED,
            module=name,
            install=lambda module, report: report_instances(module.Optimizer, report),
        )
        for name in OPTIMIZER_MODULES
    ),
    StepHook(signal="model", priority=-1, module=_CALLBACKS, install=_after_training_step),
    StepHook(
        signal="model", priority=-1, module=_CALLBACKS, install=_after_callbacks("on_eval_step_end"), training=False
    ),
    *(
        StepHook(signal="evaluation", role=role, module=_CALLBACKS, install=_after_callbacks(name))
        for name, role in (("on_eval_begin", HookRole.EVALUATION_BEGIN), ("on_eval_end", HookRole.EVALUATION_END))
    ),
    *(
        StepHook(signal="optimizer", priority=0, module=module, install=patch.listener(OPTIMIZER))
        for module, patch in _UPDATES.items()
    ),
    *(
        StepHook(signal="jit", priority=2, module=module, install=patch.listener(JIT))
        for module, patch in _GRAPHS.items()
    ),
    *(
        StepHook(
            signal="forward", priority=3, module=_CELL, install=_CELLS.listener(kind), training=training, costly=True
        )
        for kind, training in ((FORWARD, True), (EVALUATION, False))
    ),
    *(
        StepHook(
            signal="loop",
            role=HookRole.LOOP_BEGIN,
            module=_CALLBACKS,
            install=_after_callbacks(name),
            training=training,
        )
        for name, training in (("on_train_begin", True), ("on_eval_begin", False))
    ),
    *(
        StepHook(
            signal="call",
            role=HookRole.CALL_BEGIN,
            priority=3,
            module=_CELL,
            install=_CELLS.listener(kind),
            training=training,
            costly=True,
        )
        for kind, training in ((BEGIN, True), (EVALUATION_BEGIN, False))
    ),
    *(
        StepHook(signal="call", role=HookRole.CALL_BEGIN, module=module, install=patch.listener(BEGIN))
        for module, patch in _GRAPHS.items()
    ),
)
"""Those that end steps are in descending order of reliability."""


def step_hooks() -> tuple[StepHook, ...]:
    """Return the hooks that detect the ends of steps."""
    return STEP_HOOKS
