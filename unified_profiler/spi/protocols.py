"""What a backend must be: three small protocols and the values they exchange.

A backend is an adapter to one framework's native profiler. It sees this module, `model` and `errors`, nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Protocol

from unified_profiler.model.schema import EventTable
from unified_profiler.spi.conventions import EventConventions


class Capability(Enum):
    """A thing that a backend can record, or not."""

    SHAPES = "record_shapes"
    MEMORY = "profile_memory"
    STACKS = "with_stack"
    FLOPS = "with_flops"
    DEVICE_EVENTS = "device_events"
    """Kernels, copies and streams of an accelerator, where the machine has one."""


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """What is to be recorded besides the operators themselves."""

    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    """The facade records calls of modules: record what it cannot see, such as modules within a compiled graph."""
    keep_native: bool = False
    """The native files will be kept for other tools: write them as those tools expect them."""
    native_options: Mapping[str, Any] = field(default_factory=dict)
    """Handed to the native profiler untouched."""

    def wanted(self) -> frozenset[Capability]:
        """Return the capabilities that these options ask for."""
        switches = (Capability.SHAPES, Capability.MEMORY, Capability.STACKS, Capability.FLOPS)
        return frozenset(capability for capability in switches if getattr(self, capability.value))


@dataclass(frozen=True, kw_only=True)
class NativeCapture:
    """What a recorder leaves behind, or what somebody else's native profiler left."""

    backend: str
    files: tuple[Path, ...]
    framework_version: str | None = None
    start_ns: int | None = None
    """When recording began and ended, by the facade's clock; None for a capture made elsewhere."""
    stop_ns: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else this backend's normalizer needs, as plain data: texts, numbers, None, lists, and dicts by texts.

    It may be written down as JSON and read by a normalizer in another process.
    """


class Recorder(Protocol):
    """Drives the native profiler through one cycle. Every verb is legal once, in this order."""

    def arm(self) -> None:
        """Prepare the native profiler; what it records from here on is thrown away."""
        ...

    def start(self) -> None:
        """Begin to record."""
        ...

    def mark_step(self, step: int) -> None:
        """Tell the native profiler, if it wants to know, that the given step begins."""
        ...

    def synchronize(self) -> None:
        """Wait for work that is only queued so far, where nothing else tells to which step it belongs.

        Called right before recording starts and, while recording, right before the end of a step is noted. What it
        raises is an error of the program's own work, which the framework tells to whoever waits first: it goes on to
        the program.
        """
        ...

    def stop(self) -> NativeCapture:
        """End recording and leave what was recorded in the work directory."""
        ...

    def discard(self) -> None:
        """Let go of everything, in any state and any number of times, without raising."""
        ...


class Normalizer(Protocol):
    """Turns a native capture into events."""

    def recognizes(self, path: Path) -> bool:
        """Say whether this file or directory looks like a native capture of this backend. Cheap, never raises."""
        ...

    def normalize(self, capture: NativeCapture) -> EventTable:
        """Return all events of the capture in the schema, nested or not.

        It may be another process than that of the recorder, even on another machine: what is of interest about that
        one stands in the files or in the details.

        Raises:
            TraceFormatError: The files are damaged, empty or of another kind.
        """
        ...


class HookRole(Enum):
    """What a call from a hooked place means."""

    STEP_END = "step end"
    STEPS_EXPECTED = "steps expected"
    """Ends no step, but announces that the surest signal will come: an optimizer was made."""
    PROFILER_WANTED = "profiler wanted"
    """Ends no step: the program itself is about to use the native profiler, which must then be free."""
    EVALUATION_BEGIN = "evaluation begin"
    """Ends no step: a trainer begins to validate, between two training steps or outside any training."""
    EVALUATION_END = "evaluation end"
    """Ends no step: the training step that follows, if any, begins here."""


@dataclass(frozen=True, kw_only=True)
class StepHook:
    """A place in a framework from which the end of a step can be told, for scripts that do not call `step()`."""

    signal: str
    """What users call it: optimizer, backward, dataloader, forward, ..."""
    module: str
    """The module that owns what is hooked; `install` is called right after its import."""
    install: Callable[[ModuleType, Callable[[int], None]], Callable[[], None]]
    """Takes the module and a function to call with an id of the sender each time; returns the undoing."""
    priority: int = 0
    """0 for the surest signal of a framework, -1 for a trainer's own word; a better one that fires replaces a worse."""
    role: HookRole = HookRole.STEP_END
    training: bool = True
    """False for signals of evaluation, which end steps only if no training signal ever came."""
    costly: bool = False
    """True where hooking slows the program: undone as soon as a better signal has fired."""
    of_model: bool = True
    """False where other code than a model or an optimizer sends it, such as a loader of data."""


class CallTracer(Protocol):
    """Traces calls of functions and methods of a framework's API."""

    @property
    def inside(self) -> bool:
        """Whether calls that the framework makes itself are recorded, too."""
        ...

    @property
    def wants_calls(self) -> bool:
        """Whether calls are recorded; if not, only modules are."""
        ...

    def function(self, function: FunctionType, name: str) -> None:
        """Trace a function or method written in Python, wherever it was imported to."""
        ...

    def method(self, function: FunctionType, name_of: Callable[[Any], str]) -> None:
        """Trace a method written in Python whose calls are named after their object."""
        ...

    def attribute(self, owner: type, attribute: str, name: str) -> None:
        """Trace a method that is not written in Python: it is replaced in its class while tracing lasts."""
        ...

    def timed(self, function: Callable[..., Any], name: str) -> Callable[[tuple[Any, ...], Any], Any]:
        """Return what records a call of a function, given its arguments and its keywords or None, and makes it.

        For frameworks that have hooks of their own for calls. It is to be called by the hook itself, so that the
        second frame above it is the caller's.
        """
        ...


class ModuleTracer(Protocol):
    """Traces calls of modules: layers, Cells."""

    def module_call(self, function: FunctionType) -> None:
        """Trace the method by which modules are called; its first argument is the module."""
        ...

    def module_begins(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Begin the call of a module."""
        ...

    def module_ends(self, module: Any) -> None:
        """End the call of a module; nothing happens if its beginning was not seen."""
        ...


class ApiTracer(CallTracer, ModuleTracer, Protocol):
    """What a surface is given to trace with. All of it is undone when tracing ends."""

    def undo_at_end(self, undo: Callable[[], None]) -> None:
        """Have something undone when tracing ends; the last first."""
        ...


class ApiDescriptions(Protocol):
    """Describes a framework's own values and modules in the calls that are traced."""

    def value_texts(self) -> Mapping[type, Callable[[Any], str]]:
        """Return a function for each class of the framework's values that describes one: `Tensor[4,16] float32 cpu`."""
        ...

    def module_name(self, module: Any) -> str | None:
        """Return the name of a module's class in the API; None for a class of the user's, whose code is seen itself."""
        ...

    def submodules(self, module: Any) -> Iterable[tuple[str, Any]]:
        """Return all modules below a module and their paths in it, as `encoder.layers.0`."""
        ...


class ApiSurface(ApiDescriptions, Protocol):
    """How the calls of a framework's public API are traced. The framework is imported."""

    @property
    def packages(self) -> frozenset[str]:
        """The packages of the framework: calls made by their code are made inside."""
        ...

    @property
    def machinery(self) -> Mapping[str, int]:
        """Modules whose frames stand between a caller and what is called, and how many frames to go up from them."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names of everything that can be traced, for patterns to be checked against."""
        ...

    def install(self, tracer: ApiTracer) -> None:
        """Have the tracer trace all calls that can be traced."""
        ...

    def synchronize(self) -> None:
        """Wait until all work is done that calls have only queued."""
        ...


@dataclass(frozen=True, kw_only=True)
class StepStatistics:
    """What a framework itself recorded of one run of a graph, in the framework's own text form."""

    step: int | None
    """The step in which it ran; None outside all steps."""
    graph: str | None
    """The name of the graph, as in the attribute `graph` of its events; None for a graph without a name."""
    text: Callable[[], str]
    """Reads the statistics. The texts of several runs, one after the other, are the statistics of all of them.

    It raises a `TraceFormatError` if its file is damaged or lost.
    """


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """What a backend can do besides recording and reading. Each is None where it cannot."""

    step_hooks: Callable[[], Sequence[StepHook]] | None = None
    """Returns the hooks by which the ends of steps are found in scripts that do not call `step()`."""
    api_surface: Callable[[], ApiSurface] | None = None
    """Returns how calls of the framework's API are traced. Called once the framework is imported."""
    allocated_bytes: Callable[[], Mapping[str, int]] | None = None
    """Returns the bytes that the framework's allocators have given out, by device: `{"cuda:0": 1024}`.

    Called several times a second, on a thread of the profiler's, while something is recorded and the framework is
    imported. It must be cheap, must not initialize a device that the program has not used, must not wait for work, and
    should keep off the framework's public functions, whose calls may be being traced.
    """
    step_statistics: Callable[[Path], Iterable[StepStatistics]] | None = None
    """Returns the framework's own statistics of each run of a graph, in order, given the native files of one cycle.

    These are what was the work directory of the recorder, kept with `keep_native`; the process may be another one. It
    raises a `TraceFormatError` if it is not known what there is, since a file is damaged or lost.
    """


class Backend(Protocol):
    """A cheap descriptor; making or importing one imports no framework."""

    @property
    def name(self) -> str:
        """The name by which users choose it, and which events, traces and manifests carry."""
        ...

    @property
    def module(self) -> str:
        """The framework's top-level module, looked up in `sys.modules` (see `is_imported`); need not equal the name."""
        ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can record."""
        ...

    def recorder(self, options: RecordOptions, workdir: Path) -> Recorder:
        """Make the recorder of one cycle; it writes only below `workdir`, which exists and is empty."""
        ...

    def normalizer(self) -> Normalizer:
        """Make the normalizer of this backend's captures."""
        ...

    @property
    def abilities(self) -> Abilities:
        """What it can do besides recording and reading."""
        ...

    @property
    def conventions(self) -> EventConventions:
        """The names and attribute keys of its events that analyses rely on."""
        ...


def is_imported(module: str) -> bool:
    """Say whether this process has imported a module to its end.

    One whose import is under way is in `sys.modules`, too, but is not complete, and is gone again should it fail.
    """
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return sys.modules.get(module) is not None and not getattr(spec, "_initializing", False)
