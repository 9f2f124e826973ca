"""Wraps all private entry points of MindSpore that this package uses, with the reason why no public one suffices.

`mindspore.profiler.profile` is public, but its output directory is a setting of the whole process, its failures are
only logged, a failure in it disables every later one, and it does not report whether one is active. The C++ profiler
beneath it has none of these faults, takes a tenth of a millisecond, and writes the same files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from operator import attrgetter
from typing import Any

import mindspore

from unified_profiler.errors import BackendBusyError, NativeProfilerError
from unified_profiler.spi.patching import Invoke, Undo, wrap_method

METHODS = ("init", "step_profiling_enable", "enable_op_time", "enable_profile_memory", "stop")
"""The methods of the C++ profiler that are called."""

in_use = threading.Lock()
"""Held while a recorder of this package records: the C++ profiler exists once per process and has no owner."""

_BUSY = (
    "Another Profiler of this package is recording MindSpore in this process, and MindSpore allows one at a time. "
    "Stop it first, or leave MindSpore out with `backend=`."
)


def version() -> str:
    """Return the version of MindSpore."""
    return str(mindspore.__version__)


def host_profiler() -> Any:
    """Return the C++ profiler of kernels on the host, which `mindspore.profiler.profile` is built on."""
    with _private_api("mindspore._c_expression", f"Profiler.get_instance('CPU') with {', '.join(METHODS)}"):
        profiler = import_module("mindspore._c_expression").Profiler.get_instance("CPU")
        for method in METHODS:
            getattr(profiler, method)
        return profiler


def wait_for_kernels() -> None:
    """Wait until all kernels that PyNative mode has queued have run.

    The public `mindspore.runtime.synchronize` does nothing on a CPU. This raises errors of the program's own kernels,
    which MindSpore reports only once.
    """
    _get("mindspore.graph.api", "_pynative_executor").sync()


def dispatch_depth() -> int:
    """Return how many dispatch modes the current thread is in; `mindspore.MsDispatchMode` does not report it."""
    return int(_get("mindspore._c_expression", "_DispatchGuardStack.depth")())


def dispatch_mode(dispatch: Callable[[Any, tuple[Any, ...]], Any]) -> Any:
    """Return a dispatch mode, which MindSpore calls for each operator of the thread that entered it.

    Args:
        dispatch: Takes the function that runs the operator, and its arguments; returns the result.
    """

    class Mode(_get("mindspore", "MsDispatchMode")):  # type: ignore[misc]
        def __ms_dispatch__(self, func: Any, args: tuple[Any, ...], _: Any = None) -> Any:
            return dispatch(func, args)

    return Mode()


def leave_dispatch_mode() -> None:
    """Leave the innermost dispatch mode of the current thread.

    It waits for the program's own kernels and raises their errors, in which case the mode is not left.
    """
    _get("mindspore._c_expression", "_DispatchGuardStack.pop")()


def executor_class() -> type:
    """Return the class whose methods run PyNative mode: gradients, and graphs that `ms.jit` made of functions.

    No public function is called when a gradient computation starts, and hooks of Cells only cover their own gradients.
    """
    return type(_get("mindspore.graph.api", "_pynative_executor"))


def graph_class() -> type:
    """Return the class that runs the graphs of Cells."""
    return type(_get("mindspore.graph.api", "_cell_graph_executor._graph_executor"))


def graph_proto(name: str) -> bytes:
    """Return a compiled graph in protobuf format, without the values of its parameters; empty if there is none.

    Args:
        name: MindSpore's name of the graph.
    """
    executors = import_module("mindspore._c_expression")
    for executor in ("GraphExecutor_", "JitExecutor_"):  # of Cells and of functions; each raises for a missing graph
        with suppress(AttributeError, RuntimeError, TypeError):
            return bytes(getattr(executors, executor).get_instance().get_func_graph_proto(name, "anf_ir", False))
    return b""


def check_available() -> None:
    """Check that the native profiler is not in use, which MindSpore does not report publicly.

    Raises:
        BackendBusyError: `mindspore.profiler.profile`, the older `Profiler`, MS_PROFILER_OPTIONS, or a recorder of
            this package uses it.
    """
    if is_profiler_active():
        msg = (
            "MindSpore's own profiler is in use in this process (mindspore.profiler.profile, mindspore.Profiler before "
            "its analyse(), or MS_PROFILER_OPTIONS), and MindSpore allows one at a time. Stop it before this one "
            "records, or leave MindSpore out with `backend=`."
        )
        raise BackendBusyError(msg)
    if in_use.locked():
        raise BackendBusyError(_BUSY)


def acquire() -> None:
    """Acquire the native profiler, until `in_use.release()`.

    Raises:
        BackendBusyError: It is in use.
    """
    check_available()
    if not in_use.acquire(blocking=False):
        raise BackendBusyError(_BUSY)


def is_profiler_active() -> bool:
    """Return whether MindSpore's own profiler is in use."""
    return bool(_get("mindspore.profiler.profiler_interface", "ProfilerInterface.is_initialized"))


def before_own_profiler(function: Callable[[], None]) -> Undo:
    """Patch MindSpore's own profiler to call a function right before it starts to record the host.

    It uses the same C++ profiler, so that its results would otherwise contain the recording of this package.
    """
    _get("mindspore.profiler.platform.cpu_profiler", "CpuProfiler.start")  # raises if it is missing

    def around(invoke: Invoke, _: Any, __: tuple[Any, ...]) -> Any:
        function()
        return invoke()

    return wrap_method(_get("mindspore.profiler.platform.cpu_profiler", "CpuProfiler"), "start", around)


@contextmanager
def output_below(folder: str) -> Iterator[None]:
    """Make `profile` objects that are created in this block write below a folder.

    The only public way sets it for all later ones of the process; this restores the previous folder.
    """
    with _private_api("mindspore.profiler.common.profiler_context", "ProfilerContext"):
        context = _get("mindspore.profiler.common.profiler_context", "ProfilerContext")()
        before, context.on_trace_ready_output_path = context.on_trace_ready_output_path, folder
    try:
        yield
    finally:
        context.on_trace_ready_output_path = before


def reset_profiler() -> None:
    """Reset the state that a failure inside `profile` leaves behind, with which every later one would fail."""
    _get("mindspore.profiler.profiler_interface", "ProfilerInterface.clear")()


def _get(module: str, path: str) -> Any:
    with _private_api(module, path):
        return attrgetter(path)(import_module(module))


@contextmanager
def _private_api(module: str, name: str) -> Iterator[None]:
    try:
        yield
    except (ImportError, AttributeError) as error:
        msg = (
            f"MindSpore {version()} has no {module}.{name} as 2.10 has it, so it cannot be recorded. Use a version of "
            "MindSpore that this version of unified-profiler supports, or a newer unified-profiler."
        )
        raise NativeProfilerError(msg) from error
