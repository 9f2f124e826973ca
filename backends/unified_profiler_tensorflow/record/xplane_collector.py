"""XPlaneCollector: TensorFlow's own profiler of the whole process, through one recording.

TensorFlow allows one profiler at a time in a process. One that is already active is somebody else's and is not touched,
and one that the program starts while this one records takes its place. To tell the two apart, the native session is
held here and not where `tf.profiler.experimental` keeps that of the program, which can stop only its own.
"""

from __future__ import annotations

import functools
import operator
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import tensorflow as tf

from unified_profiler.errors import BackendBusyError, BackendError, NativeProfilerError
from unified_profiler.model.text import storable
from unified_profiler.spi import RecordOptions
from unified_profiler.spi.patching import Undo, replace
from unified_profiler.spi.protobuf import DAMAGED, message_classes
from unified_profiler.spi.recorder_states import native_errors

_PROFILER = "tf.profiler.experimental"

_BUSY = (
    "A profiler of TensorFlow is already active in this process (a TensorBoard callback with `profile_batch`, a "
    "profiler server, a run with FULL_TRACE?), and TensorFlow allows one at a time. Stop it before this one records, "
    "or leave TensorFlow out with `backend=`."
)
_DISPLACED = (
    "The program started TensorFlow's profiler itself while this one recorded (`tf.profiler.experimental.start`, a "
    "TensorBoard callback with `profile_batch`), and TensorFlow allows one at a time. The program has what its own "
    "recorded; what this one had recorded is lost. Use one of them in a step, or leave TensorFlow out with `backend=`."
)

_UNTIL_MARKED_S = 0.005
"""How long XLA's threads get to mark the ends of instructions, which they do when the result may be there already."""


class XPlaneCollector:
    """Records one cycle with the profiler of `tf.profiler.experimental`.

    Attributes:
        applied: The tracer levels TensorFlow says it used, once it has stopped; empty if it does not say.
    """

    def __init__(self, options: RecordOptions, logdir: Path) -> None:
        self.applied: dict[str, int] = {}
        self._options = options
        self._logdir = logdir
        self._session: Any = None
        self._displaced = False
        self._unwatch: Undo | None = None
        self._lock = threading.Lock()

    @property
    def started(self) -> bool:
        """Whether it was started here, and not yet let go."""
        return self.active or self._displaced

    @property
    def active(self) -> bool:
        """Whether the profiler that was started here is still active."""
        return self._session is not None

    def warm_up(self) -> None:
        """Start and stop once: the first start in a process is slower, and loads the tracers of devices.

        What stands in the way now, such as another active profiler, may be gone when recording begins: no error yet.

        Raises:
            NativeProfilerError: The native options are not TensorFlow's.
        """
        self._native_options()
        with suppress(BackendError):
            self._open("")
        self.discard()

    def start(self) -> None:
        """Begin to record.

        Raises:
            BackendBusyError: Another profiler is active.
            NativeProfilerError: TensorFlow refused.
        """
        self._open(str(self._logdir))

    def stop(self) -> tuple[Path, ...]:
        """End recording and return what TensorFlow wrote: one file per host.

        Raises:
            BackendBusyError: The program started its own, which took the place of this one.
            NativeProfilerError: TensorFlow failed or wrote nothing.
        """
        time.sleep(_UNTIL_MARKED_S)
        with self._lock:
            session = self._let_go()
            if session is None:
                raise BackendBusyError(_DISPLACED)
            try:
                with native_errors(_PROFILER, "stop and save"):
                    session.export_to_tb()
            except NativeProfilerError:
                session.stop()  # the error may keep it alive
                raise
        with native_errors(_PROFILER, "stop and save"):
            files = tuple(sorted(self._logdir.rglob("*.xplane.pb")))
            if not files:
                msg = f"no .xplane.pb file was written below {self._logdir}"
                raise OSError(msg)
        with suppress(*DAMAGED):  # a damaged file is for the normalizer to tell
            self.applied = applied_levels(files[0])
        return files

    def discard(self) -> None:
        """Free the native profiler, if it is held here."""
        with self._lock:
            self._let_go()
            self._displaced = False

    def ignored(self) -> list[str]:
        """Say which options TensorFlow did not follow, one sentence each."""
        return [
            f"TensorFlow {tf.__version__} recorded with {name}={self.applied[name]} although {asked} was asked for."
            for name, asked in self._levels().items()
            if self.applied.get(name, asked) != asked
        ]

    def _open(self, logdir: str) -> None:
        options, sessions = self._native_options(), _native_sessions()
        session = _unwrapped(sessions.ProfilerSession)()
        try:
            with native_errors(_PROFILER, "start"):
                session.start(logdir, options._asdict())
        except NativeProfilerError as error:
            if not isinstance(error.__cause__, tf.errors.AlreadyExistsError):
                raise
            raise BackendBusyError(_BUSY) from error
        self._session = session
        self._unwatch = replace(sessions, "ProfilerSession", self._giving_way(sessions.ProfilerSession))

    def _giving_way(self, make_session: Callable[[], Any]) -> Callable[[], Any]:
        """Wrap what makes the program's sessions: TensorFlow would refuse one, and raise in the program."""

        @functools.wraps(make_session, updated=())
        def make() -> Any:
            with self._lock:
                if self._let_go() is not None:
                    self._displaced = True
            return make_session()

        return make

    def _let_go(self) -> Any:
        """Give up the session, which ends where nobody holds it any longer."""
        session, self._session = self._session, None
        unwatch, self._unwatch = self._unwatch, None
        if unwatch is not None:
            unwatch()
        return session

    def _native_options(self) -> Any:
        with native_errors(_PROFILER, "prepare"):
            given = {name: _Number(value) for name, value in self._levels().items()}
            return tf.profiler.experimental.ProfilerOptions(**given)

    def _levels(self) -> dict[str, int]:
        options = self._options
        levels: Mapping[str, int] = {
            "host_tracer_level": 3 if options.record_shapes or options.with_flops else 2,
            "python_tracer_level": int(options.with_stack),
        }
        given = {name: value for name, value in options.native_options.items() if value is not None}
        return {**levels, **given}


class _Number:
    """An integer that is no `int`: TensorFlow 2.21 takes a plain one for a truth value, and then ignores it."""

    def __init__(self, value: int) -> None:
        self._value = operator.index(value)

    def __index__(self) -> int:
        return self._value


def _unwrapped(make_session: Any) -> Any:
    """Return TensorFlow's own class: between recorders of this package, the first to start records."""
    return getattr(make_session, "__wrapped__", make_session)


def _native_sessions() -> Any:
    """Return the module by which `tf.profiler.experimental` makes its sessions. It is private."""
    try:
        from tensorflow.python.profiler import profiler_v2

        module = profiler_v2._pywrap_profiler
        for name in ("start", "export_to_tb"):
            getattr(_unwrapped(module.ProfilerSession), name)
    except (ImportError, AttributeError) as error:
        msg = (
            f"TensorFlow {tf.__version__} makes its profilers in a place that this version of unified-profiler "
            "does not know. Use a version of TensorFlow that it was tested with, or leave it out with `backend=`."
        )
        raise NativeProfilerError(msg) from error
    return module


def python_threads() -> dict[int, tuple[int, str]]:
    """Return OS id and name of each Python thread, by the id that XPlane gives to its line.

    The id is libstdc++'s hash of the thread's handle (MurmurHash64A), and the line's name only that of the process:
    this is how to tell the lines of several Python threads apart. Where TensorFlow hashes otherwise, no line matches.
    """
    threads = [thread for thread in threading.enumerate() if thread.ident is not None]
    return {_line_id(thread.ident or 0): (thread.native_id or 0, storable(thread.name)) for thread in threads}


def _line_id(handle: int) -> int:
    factor, seed, length, mask = 0xC6A4A7935BD1E995, 0xC70F6907, 8, (1 << 64) - 1
    mixed = handle * factor & mask
    mixed = (mixed ^ mixed >> 47) * factor & mask
    found = ((seed ^ length * factor) & mask ^ mixed) * factor & mask
    found = (found ^ found >> 47) * factor & mask
    found ^= found >> 47
    return found - (1 << 64) if found >> 63 else found


_MESSAGES = message_classes(
    "unified_profiler.tensorflow.applied",
    {
        "XSpace": {"planes": (1, "repeated bytes")},
        "XPlane": {"name": (2, "string"), "stat_metadata": (5, "repeated Entry"), "stats": (6, "repeated XStat")},
        "Entry": {"key": (1, "int64"), "value": (2, "XStatMetadata")},
        "XStatMetadata": {"name": (2, "string")},
        "XStat": {"metadata_id": (1, "int64"), "bytes_value": (6, "bytes")},
        "ProfileOptions": {
            "host_tracer_level": (2, "uint32"),
            "device_tracer_level": (3, "uint32"),
            "python_tracer_level": (4, "uint32"),
        },
    },
)
_TASK = "Task Environment"


def applied_levels(file: Path) -> dict[str, int]:
    """Read from a trace the tracer levels that it was recorded with; empty if it does not say."""
    for encoded in _MESSAGES["XSpace"].FromString(file.read_bytes()).planes:
        if _TASK.encode() not in encoded[:64]:  # planes of events are large: leave them encoded
            continue
        plane = _MESSAGES["XPlane"].FromString(encoded)
        names = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for stat in plane.stats:
            if names.get(stat.metadata_id) == "profile_options":
                options = _MESSAGES["ProfileOptions"].FromString(stat.bytes_value)
                return {field.name: getattr(options, field.name) for field in options.DESCRIPTOR.fields}
    return {}
