"""Defines the interface of a backend, the adapter to one framework's native profiler: protocols and their values."""

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
    """An optional part of a recording, which a backend may support."""

    SHAPES = "record_shapes"
    MEMORY = "profile_memory"
    STACKS = "with_stack"
    FLOPS = "with_flops"
    DEVICE_EVENTS = "device_events"
    """Kernels, copies and streams of an accelerator, where the machine has one."""


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """Selects what to record besides the operators themselves."""

    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    """Record the modules that the facade cannot trace, such as those within a compiled graph."""
    keep_native: bool = False
    """The native files are kept for other tools: write them in the form that those expect."""
    native_options: Mapping[str, Any] = field(default_factory=dict)
    """Passed to the native profiler unchanged."""

    def wanted(self) -> frozenset[Capability]:
        """Return the capabilities that these options require."""
        switches = (Capability.SHAPES, Capability.MEMORY, Capability.STACKS, Capability.FLOPS)
        return frozenset(capability for capability in switches if getattr(self, capability.value))


@dataclass(frozen=True, kw_only=True)
class NativeCapture:
    """The files of a recorder, or of a native profiler that was used without this package."""

    backend: str
    files: tuple[Path, ...]
    framework_version: str | None = None
    start_ns: int | None = None
    """Start and end of recording by the facade's clock; None for a capture made without this package."""
    stop_ns: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further data for this backend's normalizer, in a form that JSON can hold.

    It may be written as JSON and read by a normalizer in another process.
    """


class Recorder(Protocol):
    """Drives the native profiler through one cycle. Every verb is allowed once, in this order."""

    def arm(self) -> None:
        """Prepare the native profiler; events before `start` are dropped."""

    def start(self) -> None:
        """Start recording."""

    def mark_step(self, step: int) -> None:
        """Notify the native profiler, if it uses this, that the given step begins."""

    def synchronize(self) -> None:
        """Wait for queued work, where nothing else shows which step the work belongs to.

        Called right before recording starts and, while recording, right before each step ends. An exception from here
        is an error of the program's own work, which the framework raises at the first wait: it is passed on to the
        program.
        """

    def stop(self) -> NativeCapture:
        """Stop recording and leave the native files in the work directory."""

    def discard(self) -> None:
        """Release everything, in any state and any number of times, without raising."""


class Normalizer(Protocol):
    """Converts a native capture to events."""

    def recognizes(self, path: Path) -> bool:
        """Return whether this file or directory looks like a native capture of this backend. Cheap, never raises."""

    def normalize(self, capture: NativeCapture) -> EventTable:
        """Return all events of the capture in the schema, nested or not.

        This may be a different process than that of the recorder, even on another machine: all that is needed from
        the recorder is in the files or in the details.

        Raises:
            TraceFormatError: The files are damaged, empty or in another format.
        """


class HookRole(Enum):
    """The meaning of a signal from a hook."""

    STEP_END = "step end"
    STEPS_EXPECTED = "steps expected"
    """Ends no step, but announces that the most reliable signal will come: an optimizer was created."""
    PROFILER_WANTED = "profiler wanted"
    """Ends no step: the program itself is about to use the native profiler, which must be free then."""
    EVALUATION_BEGIN = "evaluation begin"
    """Ends no step: a trainer begins an evaluation, between two training steps or outside training."""
    EVALUATION_END = "evaluation end"
    """Ends no step: the training step that follows, if any, begins here."""
    LOOP_BEGIN = "loop begin"
    """Ends no step: a loop begins, of a trainer or over the batches of a data loader. The first step begins with it."""
    CALL_BEGIN = "call begin"
    """Ends no step: the outermost call of a model begins, with which the first step begins if there is no such loop."""


@dataclass(frozen=True, kw_only=True)
class StepHook:
    """A hook in a framework that detects the ends of steps, and where the first may begin, in unmodified scripts."""

    signal: str
    """Its name for users: optimizer, backward, dataloader, forward, ..."""
    module: str
    """The module to hook; `install` is called right after its import."""
    install: Callable[[ModuleType, Callable[[int], None]], Callable[[], None]]
    """Takes the module and a function to call with the id of each sender; returns the function that undoes this."""
    priority: int = 0
    """0 for the most reliable signal of a framework, -1 for a trainer's own; a lower value replaces a higher one."""
    role: HookRole = HookRole.STEP_END
    training: bool = True
    """False for evaluation signals, which end steps only if there is no training signal."""
    costly: bool = False
    """True if the hook slows down the program: it is removed as soon as a better signal has fired."""
    of_model: bool = True
    """False if the sender is neither a model nor an optimizer, such as a data loader."""


class CallTracer(Protocol):
    """Traces the functions and methods of a framework's API."""

    @property
    def inside(self) -> bool:
        """Whether calls made by the framework itself are recorded, too."""

    @property
    def wants_calls(self) -> bool:
        """Whether calls are recorded; if not, only modules are."""

    def function(self, function: FunctionType, name: str) -> None:
        """Trace a function or method written in Python, under all names that it was imported to."""

    def method(self, function: FunctionType, name_of: Callable[[Any], str]) -> None:
        """Trace a method written in Python whose calls are named after their object."""

    def attribute(self, owner: type, attribute: str, name: str) -> None:
        """Trace a method that is not written in Python: it is replaced in its class while tracing."""

    def timed(self, function: Callable[..., Any], name: str) -> Callable[[tuple[Any, ...], Any], Any]:
        """Return a function that makes and records a call, given the arguments and the keywords or None.

        For frameworks with their own call hooks. The hook itself must call it, so that the second frame above it is the
        caller's.
        """


class ModuleTracer(Protocol):
    """Traces the calls of modules: layers, Cells."""

    def module_call(self, function: FunctionType) -> None:
        """Trace the method by which modules are called; its first argument is the module."""

    def module_begins(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Begin the call of a module."""

    def module_ends(self, module: Any) -> None:
        """End the call of a module; does nothing if its beginning was not seen."""


class ApiTracer(CallTracer, ModuleTracer, Protocol):
    """Installs the tracing of a surface; all of it is undone when tracing ends."""

    def undo_at_end(self, undo: Callable[[], None]) -> None:
        """Call a function when tracing ends, the last one first."""


class ApiDescriptions(Protocol):
    """Describes the values and modules of a framework in traced calls."""

    def value_texts(self) -> Mapping[type, Callable[[Any], str]]:
        """Return functions that describe a value of the framework, by class: `Tensor[4,16] float32 cpu`."""

    def module_name(self, module: Any) -> str | None:
        """Return the API name of a module's class; None for a user-defined class, whose calls are traced themselves."""

    def submodules(self, module: Any) -> Iterable[tuple[str, Any]]:
        """Return all modules below a module with their paths in it, such as `encoder.layers.0`."""


class ApiSurface(ApiDescriptions, Protocol):
    """Traces the public API of a framework, which is imported by then."""

    @property
    def packages(self) -> frozenset[str]:
        """The packages of the framework: calls made by their code are not made by user code."""

    @property
    def machinery(self) -> Mapping[str, int]:
        """Modules whose frames are between a caller and the called function, with the number of frames to skip."""

    def names(self) -> Iterable[str]:
        """Return the names of all functions that can be traced, to check patterns against."""

    def install(self, tracer: ApiTracer) -> None:
        """Trace all functions that can be traced."""

    def synchronize(self) -> None:
        """Wait until all queued work is done."""


@dataclass(frozen=True, kw_only=True)
class StepStatistics:
    """The framework's own statistics of one run of a graph, in its own text format."""

    step: int | None
    """The step in which it ran; None outside all steps."""
    graph: str | None
    """The name of the graph, as in the attribute `graph` of its events; None for a graph without a name."""
    text: Callable[[], str]
    """Reads the statistics. The concatenated texts of several runs are the statistics of all of them.

    Raises a `TraceFormatError` if the file is damaged or missing.
    """


@dataclass(frozen=True, kw_only=True)
class EnvironmentOptions:
    """Option names of the native profiler's environment variable, accepted in UNIFIED_PROFILER_OPTIONS too."""

    variable: str = ""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Names that correspond to an option of Profiler."""
    native: frozenset[str] = frozenset()
    """Names that only the native profiler has; they become `native_options` of the backend."""


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """Optional features of a backend besides recording and reading; None if it lacks one."""

    step_hooks: Callable[[], Sequence[StepHook]] | None = None
    """Returns the hooks that detect the ends of steps in scripts that do not call `step()`."""
    api_surface: Callable[[], ApiSurface] | None = None
    """Returns the surface that traces the framework's API. Called once the framework is imported."""
    allocated_bytes: Callable[[], Mapping[str, int]] | None = None
    """Returns the bytes allocated by the framework, by device: `{"cuda:0": 1024}`.

    Called several times per second, on a thread of the profiler, while recording and if the framework is imported. It
    must be cheap, must not initialize a device that the program has not used, must not wait for work, and should avoid
    the framework's public functions, whose calls may be traced.
    """
    step_statistics: Callable[[Path], Iterable[StepStatistics]] | None = None
    """Returns the framework's own statistics of each run of a graph, in order, given the native files of one cycle.

    These are the former work directory of the recorder, kept with `keep_native`; the process may be a different one.
    Raises a `TraceFormatError` if the list of runs is unknown because a file is damaged or missing.
    """
    routine_messages: str | None = None
    """Matches the beginnings of lines that its native profiler writes to stderr although nothing is wrong.

    They are hidden while recorders arm, start, stop and discard, unless this package logs at debug level.
    """
    event_conventions: EventConventions = field(default_factory=EventConventions)
    """The event names and attribute keys by which analyses recognize data loading and collectives."""
    environment_options: EnvironmentOptions = field(default_factory=EnvironmentOptions)
    """Translates options of the framework's own environment variable; no option by default."""


class Backend(Protocol):
    """A cheap descriptor; creating or importing one imports no framework."""

    @property
    def name(self) -> str:
        """The name by which users select it, and which events, traces and manifests contain."""

    @property
    def module(self) -> str:
        """The framework's top-level module, looked up in `sys.modules` (see `is_imported`); need not equal the name."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The optional parts of a recording that it supports."""

    def recorder(self, options: RecordOptions, workdir: Path) -> Recorder:
        """Create the recorder of one cycle; it writes only below `workdir`, which exists and is empty."""

    def normalizer(self) -> Normalizer:
        """Create the normalizer of this backend's captures."""

    @property
    def abilities(self) -> Abilities:
        """Optional features besides recording and reading."""


def is_imported(module: str) -> bool:
    """Return whether this process has completely imported a module.

    A module is in `sys.modules` during its import, too, but is incomplete then, and is removed if the import fails.
    """
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return sys.modules.get(module) is not None and not getattr(spec, "_initializing", False)
