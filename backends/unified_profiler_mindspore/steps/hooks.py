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
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from unified_profiler.spi import HookRole, StepHook
from unified_profiler_mindspore.record.optimizer_search import OPTIMIZER_MODULES, has_optimizer, works_with_optimizer
from unified_profiler_mindspore.record.watched_calls import Invoke, watch

Report = Callable[[int], None]
Tell = Callable[[str, int], None]
Undo = Callable[[], None]

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


class _Place:
    """Something of MindSpore's that is wrapped as long as anybody listens to one of the signals that come from it."""

    def __init__(self, wrap: Callable[[ModuleType, Tell], Undo]) -> None:
        self._wrap = wrap
        self._listeners: dict[str, Report] = {}
        self._restore: Undo | None = None

    def listen(self, signal: str, module: ModuleType, report: Report) -> Undo:
        """Listen to one signal."""
        if not self._listeners:
            self._restore = self._wrap(module, self._tell)
        self._listeners[signal] = report

        def undo() -> None:
            restore = self._restore
            if self._listeners.pop(signal, None) is not None and not self._listeners and restore is not None:
                self._restore = (
                    None  # it holds MindSpore's functions, which must not outlive MindSpore's modules at exit
                )
                restore()

        return undo

    def _tell(self, signal: str, source: int) -> None:
        report = self._listeners.get(signal)
        if report is not None:
            report(source)


def _replace(owner: Any, name: str, replacement: Any) -> Undo:
    """Put a wrapper in the place of an attribute; the undoing leaves it if somebody else wrapped it meanwhile."""
    inherited, original = name not in vars(owner), vars(owner).get(name)
    setattr(owner, name, replacement)

    def undo() -> None:
        if vars(owner).get(name) is not replacement:
            return
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)

    return undo


def _all(undoings: Iterable[Undo]) -> Undo:
    done = list(undoings)

    def undo() -> None:
        for one in reversed(done):
            one()

    return undo


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

    return _all(
        [
            _replace(owner, "__enter__", __enter__),
            _replace(owner, "__exit__", __exit__),
            _after_callbacks(owner, "on_train_step_end", report),
        ]
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

    return _replace(owner, name, step_end)


# --- calls of Cells, optimizers and compiled functions ----------------------------------------------------------------


def _wrap_cells(module: ModuleType, tell: Tell) -> Undo:
    """Wrap the call of every Cell; a graph loaded from a file has one of its own."""

    def ended(cell: Any) -> None:
        in_graph = module.context._get_mode() == module.context.GRAPH_MODE
        if _work.updated or (in_graph and has_optimizer(cell)):
            tell(OPTIMIZER, id(cell))
        tell(FORWARD if cell.training else EVALUATION, id(cell))

    return _all([_wrap_call(owner, ended) for owner in (module.Cell, module.GraphCell)])


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

    return _replace(owner, "__call__", __call__)


def _wrap_optimizer(module: ModuleType, tell: Tell) -> Undo:
    """Watch the call of optimizers, which are Cells that inherit theirs; a recorder may be watching it, too."""

    def around(invoke: Invoke, optimizer: Any, _: tuple[Any, ...]) -> Any:
        outermost = _work.begin()
        try:
            result = invoke()
        finally:
            _work.end()
        _work.updated = True
        if outermost:
            tell(OPTIMIZER, id(optimizer))
        return result

    return watch(module.Optimizer, "__call__", around)


def _wrap_jit(module: ModuleType, tell: Tell) -> Undo:
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
        _graph_ended(tell, id(self.fn), outermost=outermost, updates=works_with_optimizer(self.fn, self.obj))
        return result

    return _replace(owner, "__call__", __call__)


def _wrap_bytecode_jit(module: ModuleType, tell: Tell) -> Undo:
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
            _graph_ended(tell, id(self.fn), outermost=not _work.depth, updates=works_with_optimizer(self.fn))
        return left

    return _all([_replace(owner, "__enter__", __enter__), _replace(owner, "__exit__", __exit__)])


def _wrap_trace_jit(module: ModuleType, tell: Tell) -> Undo:
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
        _graph_ended(tell, hash(name), outermost=not _work.depth, updates=name in with_optimizer)
        return result

    return _all(
        [
            _replace(module, "_jit_trace_begin", _jit_trace_begin),
            _replace(module, "_jit_trace_end", _jit_trace_end),
        ]
    )


def _graph_ended(tell: Tell, source: int, *, outermost: bool, updates: bool) -> None:
    _work.updated = _work.updated or updates
    if not outermost:
        return
    if _work.updated:
        tell(OPTIMIZER, source)
    tell(JIT, source)


# --- what ends no step ------------------------------------------------------------------------------------------------


def _optimizer_made(module: ModuleType, report: Report) -> Undo:
    original = module.Optimizer.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        report(id(self))

    return _replace(module.Optimizer, "__init__", __init__)


def _profiler_wanted(module: ModuleType, report: Report) -> Undo:
    """All of MindSpore's profilers begin here: profile, Profiler, DynamicProfilerMonitor and MS_PROFILER_OPTIONS."""
    original = vars(module.ProfilerInterface)["init"]

    @functools.wraps(original.__func__)
    def init(cls: Any) -> Any:
        report(id(cls))
        return original.__func__(cls)

    return _replace(module.ProfilerInterface, "init", classmethod(init))


_CELLS, _JITS, _BYTECODE_JITS, _TRACE_JITS = map(_Place, (_wrap_cells, _wrap_jit, _wrap_bytecode_jit, _wrap_trace_jit))
_OPTIMIZERS = {name: _Place(_wrap_optimizer) for name in OPTIMIZER_MODULES}
_CALLBACKS = "mindspore.train.callback._callback"
_GRAPHS = {
    "mindspore.graph.api": _JITS,
    "mindspore.graph._utils.pijit_context": _BYTECODE_JITS,
    "mindspore.graph.jit_trace": _TRACE_JITS,
}


def _listener(place: _Place, key: str) -> Callable[[ModuleType, Report], Undo]:
    return functools.partial(place.listen, key)


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
    StepHook(signal="model", rank=-1, module=_CALLBACKS, install=_after_training_step),
    StepHook(signal="model", rank=-1, module=_CALLBACKS, install=_after_evaluation_step, training=False),
    *(
        StepHook(signal="evaluation", role=role, module=_CALLBACKS, install=_at_evaluation(moment))
        for moment, role in (("begin", HookRole.EVALUATION_BEGIN), ("end", HookRole.EVALUATION_END))
    ),
    *(
        StepHook(signal="optimizer", rank=0, module=module, install=_listener(place, OPTIMIZER))
        for module, place in {**_OPTIMIZERS, "mindspore.nn.cell": _CELLS, **_GRAPHS}.items()
    ),
    *(
        StepHook(signal="jit", rank=2, module=module, install=_listener(place, JIT))
        for module, place in _GRAPHS.items()
    ),
    StepHook(signal="forward", rank=3, module="mindspore.nn.cell", install=_listener(_CELLS, FORWARD), costly=True),
    StepHook(
        signal="forward",
        rank=3,
        module="mindspore.nn.cell",
        install=_listener(_CELLS, EVALUATION),
        training=False,
        costly=True,
    ),
)
"""In the order in which MindSpore's signals can be trusted."""
