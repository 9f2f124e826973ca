"""The entry points of MindSpore that are not public: all of them, each with the reason why nothing public will do.

`mindspore.profiler.profile` is public, but its output directory is a setting of the whole process, its failures are
lines in a log, a failure in it disables every later one, and nothing tells whether one is active. The C++ profiler
below it has none of these faults, costs a tenth of a millisecond, and writes the same files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import mindspore

from unified_profiler.errors import BackendBusyError, NativeProfilerError
from unified_profiler.spi.patching import Invoke, Undo, wrap_method

VERBS = ("init", "step_profiling_enable", "enable_op_time", "enable_profile_memory", "stop")
"""What is called on the C++ profiler."""

in_use = threading.Lock()
"""Held while a recorder of this package records: the C++ profiler is one per process and does not say who has it."""

_RECORDING = (
    "Another Profiler of this package is recording MindSpore in this process, and MindSpore allows one at a time. "
    "Stop it first, or leave MindSpore out with `backend=`."
)


def version() -> str:
    """Return the version of MindSpore."""
    return str(mindspore.__version__)


def host_profiler() -> Any:
    """Return the C++ profiler of kernels on the host, on which `mindspore.profiler.profile` stands, too."""
    with _as_it_was("mindspore._c_expression", f"Profiler.get_instance('CPU') with {', '.join(VERBS)}"):
        profiler = import_module("mindspore._c_expression").Profiler.get_instance("CPU")
        for verb in VERBS:
            getattr(profiler, verb)
        return profiler


def wait_for_kernels() -> None:
    """Wait until all kernels of PyNative mode have run, which they do behind the program's back.

    The public `mindspore.runtime.synchronize` does nothing on a CPU. What this raises is an error of the program's
    own kernels, which MindSpore tells only once.
    """
    _find("mindspore.graph.api", "_pynative_executor").sync()


def dispatch_depth() -> int:
    """Return how many dispatch modes the current thread is in; `mindspore.MsDispatchMode` does not report it."""
    with _as_it_was("mindspore._c_expression", "_DispatchGuardStack.depth"):
        return int(import_module("mindspore._c_expression")._DispatchGuardStack.depth())


def dispatch_mode(dispatch: Callable[[Any, tuple[Any, ...]], Any]) -> Any:
    """Return a dispatch mode, which MindSpore calls for each operator of the thread that entered it.

    Args:
        dispatch: Runs the operator, given what runs it and its arguments.
    """
    with _as_it_was("mindspore", "MsDispatchMode"):

        class Mode(mindspore.MsDispatchMode):  # type: ignore[misc]
            def __ms_dispatch__(self, func: Any, args: tuple[Any, ...], _: Any = None) -> Any:
                return dispatch(func, args)

        return Mode()


def leave_dispatch_mode() -> None:
    """Leave the innermost dispatch mode of the current thread.

    What this raises is an error of the program's own kernels, which it waits for; the mode is not left then.
    """
    with _as_it_was("mindspore._c_expression", "_DispatchGuardStack.pop"):
        import_module("mindspore._c_expression")._DispatchGuardStack.pop()


def executor_class() -> type:
    """Return the class whose methods run PyNative mode: gradients, and graphs that `ms.jit` made of functions.

    Nothing public is called when gradients begin, and hooks of Cells are told of their own gradients only.
    """
    return type(_find("mindspore.graph.api", "_pynative_executor"))


def graph_class() -> type:
    """Return the class that runs the graphs of Cells."""
    with _as_it_was("mindspore.graph.api", "_cell_graph_executor._graph_executor"):
        return type(_find("mindspore.graph.api", "_cell_graph_executor")._graph_executor)


def graph_text(graph: str) -> bytes:
    """Return a compiled graph as MindSpore writes it, without the values of its parameters; empty if there is none.

    Args:
        graph: What MindSpore calls it.
    """
    executors = import_module("mindspore._c_expression")
    for kind in ("GraphExecutor_", "JitExecutor_"):  # of Cells, of functions; each refuses what it does not have
        with suppress(AttributeError, RuntimeError, TypeError):
            return bytes(getattr(executors, kind).get_instance().get_func_graph_proto(graph, "anf_ir", False))
    return b""


def refuse_if_taken() -> None:
    """Check that nobody uses the native profiler: MindSpore has no public way to tell.

    Raises:
        BackendBusyError: `mindspore.profiler.profile`, the older `Profiler`, MS_PROFILER_OPTIONS, or a recorder of
            this package has it.
    """
    if is_taken():
        msg = (
            "MindSpore's own profiler is in use in this process (mindspore.profiler.profile, mindspore.Profiler before "
            "its analyse(), or MS_PROFILER_OPTIONS), and MindSpore allows one at a time. Stop it before this one "
            "records, or leave MindSpore out with `backend=`."
        )
        raise BackendBusyError(msg)
    if in_use.locked():
        raise BackendBusyError(_RECORDING)


def take() -> None:
    """Take the native profiler; `in_use.release()` gives it back.

    Raises:
        BackendBusyError: Somebody else has it.
    """
    refuse_if_taken()
    if not in_use.acquire(blocking=False):
        raise BackendBusyError(_RECORDING)


def is_taken() -> bool:
    """Say whether somebody uses MindSpore's own profiler."""
    with _as_it_was("mindspore.profiler.profiler_interface", "ProfilerInterface.is_initialized"):
        return bool(_find("mindspore.profiler.profiler_interface", "ProfilerInterface").is_initialized)


def before_own_profiler(function: Callable[[], None]) -> Undo:
    """Have a function called right before MindSpore's own profiler begins to record the host.

    It begins with the C++ profiler that is used here, too, and what that had recorded would be in its results.
    """
    with _as_it_was("mindspore.profiler.platform.cpu_profiler", "CpuProfiler.start"):
        owner = _find("mindspore.profiler.platform.cpu_profiler", "CpuProfiler")
        owner.start  # noqa: B018  raises where it is not

    def first(invoke: Invoke, _: Any, __: tuple[Any, ...]) -> Any:
        function()
        return invoke()

    return wrap_method(owner, "start", first)


@contextmanager
def output_below(folder: str) -> Iterator[None]:
    """Have `profile` objects that are made in this block write below a folder.

    The only public way sets it for the whole process and all later ones; here it is put back.
    """
    with _as_it_was("mindspore.profiler.common.profiler_context", "ProfilerContext"):
        context = _find("mindspore.profiler.common.profiler_context", "ProfilerContext")()
        before, context.on_trace_ready_output_path = context.on_trace_ready_output_path, folder
    try:
        yield
    finally:
        context.on_trace_ready_output_path = before


def free() -> None:
    """Undo what a failure inside `profile` leaves behind, after which every later one would fail."""
    _find("mindspore.profiler.profiler_interface", "ProfilerInterface").clear()


def _find(module: str, name: str) -> Any:
    with _as_it_was(module, name):
        return getattr(import_module(module), name)


@contextmanager
def _as_it_was(module: str, name: str) -> Iterator[None]:
    try:
        yield
    except (ImportError, AttributeError) as error:
        raise _moved(module, name) from error


def _moved(module: str, name: str) -> NativeProfilerError:
    return NativeProfilerError(
        f"MindSpore {version()} has no {module}.{name} as 2.10 has it, so it cannot be recorded. Use a version of "
        "MindSpore that this version of unified-profiler knows, or a newer unified-profiler."
    )
