"""Runs TensorFlow's own profiler of the whole process, which writes XPlane files, for one recording.

TensorFlow allows one profiler at a time in a process. If the program's is already active, it is left alone; if the
program starts one while ours records, ours ends. To keep them apart, our native session is held here and not where
`tf.profiler.experimental` keeps the program's, so that the program can stop only its own.
"""

from __future__ import annotations

import functools
import operator
import threading
import time
from collections.abc import Callable
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
    "Another TensorFlow profiler is already active in this process (a TensorBoard callback with `profile_batch`, a "
    "profiler server, a run with FULL_TRACE?), and TensorFlow allows one at a time. Stop it before recording starts, "
    "or exclude TensorFlow with `backend=`."
)
_DISPLACED = (
    "The program started TensorFlow's profiler itself while this one was recording (`tf.profiler.experimental.start`, "
    "a TensorBoard callback with `profile_batch`), and TensorFlow allows one at a time. The program's profiler is not "
    "affected; this recording is lost. Use only one of them in a step, or exclude TensorFlow with `backend=`."
)

_XLA_GRACE_S = 0.005
"""Time given to XLA's threads to record the ends of instructions, which may happen after the result is available."""


class XPlaneCollector:
    """Records one cycle with the profiler of `tf.profiler.experimental`.

    Attributes:
        applied_levels: The tracer levels that TensorFlow used, read from the stopped trace; empty if it has none.
    """

    def __init__(self, options: RecordOptions, logdir: Path) -> None:
        self.applied_levels: dict[str, int] = {}
        self._options = options
        self._logdir = logdir
        self._session: Any = None
        self._displaced = False
        self._restore_class: Undo | None = None
        self._lock = threading.Lock()

    @property
    def started(self) -> bool:
        """Whether our profiler was started and neither stopped nor discarded, even if the program's replaced it."""
        return self.active or self._displaced

    @property
    def active(self) -> bool:
        """Whether our profiler is recording."""
        return self._session is not None

    def warm_up(self) -> None:
        """Start and stop once: the first start in a process is slower, and loads the device tracers.

        Obstacles such as another active profiler are ignored, since they may be gone when recording starts.

        Raises:
            NativeProfilerError: TensorFlow does not support the native options.
        """
        self._native_options()
        with suppress(BackendError):
            self._start_session("")
        self.discard()

    def start(self) -> None:
        """Start recording.

        Raises:
            BackendBusyError: Another profiler is active.
            NativeProfilerError: TensorFlow failed.
        """
        self._start_session(str(self._logdir))

    def stop(self) -> tuple[Path, ...]:
        """Stop recording and return the files that TensorFlow wrote, one per host.

        Raises:
            BackendBusyError: The program started its own profiler, which ended this one.
            NativeProfilerError: TensorFlow failed or wrote nothing.
        """
        time.sleep(_XLA_GRACE_S)
        with self._lock:
            session = self._release()
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
        with suppress(*DAMAGED):  # the normalizer reports a damaged file
            self.applied_levels = _read_applied_levels(files[0])
        return files

    def discard(self) -> None:
        """Release our native profiler, if any."""
        with self._lock:
            self._release()
            self._displaced = False

    def ignored_options(self) -> list[str]:
        """Return a sentence about each option that TensorFlow did not follow."""
        used = self.applied_levels
        return [
            f"TensorFlow {tf.__version__} recorded with {name}={used[name]} although {requested} was requested."
            for name, requested in self._requested_levels().items()
            if used.get(name, requested) != requested
        ]

    def _start_session(self, logdir: str) -> None:
        options, module = self._native_options(), _session_module()
        session = _native_class(module.ProfilerSession)()
        try:
            with native_errors(_PROFILER, "start"):
                session.start(logdir, options._asdict())
        except NativeProfilerError as error:
            if not isinstance(error.__cause__, tf.errors.AlreadyExistsError):
                raise
            raise BackendBusyError(_BUSY) from error
        self._session = session
        self._restore_class = replace(module, "ProfilerSession", self._release_before(module.ProfilerSession))

    def _release_before(self, create_session: Callable[[], Any]) -> Callable[[], Any]:
        """Release our session before the program creates one, which TensorFlow would otherwise refuse with an error."""

        @functools.wraps(create_session, updated=())
        def create() -> Any:
            with self._lock:
                if self._release() is not None:
                    self._displaced = True
            return create_session()

        return create

    def _release(self) -> Any:
        """Return the session and drop our reference; TensorFlow ends it when no reference is left."""
        session, self._session = self._session, None
        restore, self._restore_class = self._restore_class, None
        if restore is not None:
            restore()
        return session

    def _native_options(self) -> Any:
        with native_errors(_PROFILER, "prepare"):
            options = tf.profiler.experimental.ProfilerOptions(**self._requested_levels())
            return options._replace(**{name: _IntegerLike(value or 0) for name, value in options._asdict().items()})

    def _requested_levels(self) -> dict[str, int]:
        options = self._options
        return {
            "host_tracer_level": 3 if options.record_shapes or options.with_flops else 2,
            "python_tracer_level": int(options.with_stack),
            **{name: value for name, value in options.native_options.items() if value is not None},
        }


class _IntegerLike:
    """An integer that is not an `int`: TensorFlow 2.21 treats a plain `int` as a bool, and then ignores it."""

    def __init__(self, value: int) -> None:
        self._value = operator.index(value)

    def __index__(self) -> int:
        return self._value


def _native_class(session_class: Any) -> Any:
    """Return TensorFlow's own class without our wrapper: if several of our recorders start, the first one records."""
    return getattr(session_class, "__wrapped__", session_class)


def _session_module() -> Any:
    """Return the private module whose `ProfilerSession` class `tf.profiler.experimental` uses."""
    try:
        from tensorflow.python.profiler import profiler_v2

        module = profiler_v2._pywrap_profiler
        for name in ("start", "export_to_tb"):
            getattr(_native_class(module.ProfilerSession), name)
    except (ImportError, AttributeError) as error:
        msg = (
            f"TensorFlow {tf.__version__} creates its profilers through internals that this version of "
            "unified-profiler does not support. Use a version of TensorFlow that it was tested with, or exclude "
            "TensorFlow with `backend=`."
        )
        raise NativeProfilerError(msg) from error
    return module


def python_threads() -> dict[int, tuple[int, str]]:
    """Return OS id and name of each Python thread, by the id of its XPlane line.

    That id is libstdc++'s hash of the thread handle (MurmurHash64A). It is the only way to distinguish the lines of
    Python threads, which all carry the name of the process. If TensorFlow uses another hash, no line matches.
    """
    threads = [thread for thread in threading.enumerate() if thread.ident is not None]
    return {_line_id(thread.ident or 0): (thread.native_id or 0, storable(thread.name)) for thread in threads}


def _line_id(handle: int) -> int:
    factor, seed, length, mask = 0xC6A4A7935BD1E995, 0xC70F6907, 8, (1 << 64) - 1
    mixed = handle * factor & mask
    mixed = (mixed ^ mixed >> 47) * factor & mask
    digest = ((seed ^ length * factor) & mask ^ mixed) * factor & mask
    digest = (digest ^ digest >> 47) * factor & mask
    digest ^= digest >> 47
    return digest - (1 << 64) if digest >> 63 else digest


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
_TASK_PLANE = b"Task Environment"


def _read_applied_levels(file: Path) -> dict[str, int]:
    """Read the tracer levels that a trace was recorded with; empty if it contains none."""
    for encoded in _MESSAGES["XSpace"].FromString(file.read_bytes()).planes:
        if _TASK_PLANE not in encoded[:64]:  # planes of events are large: leave them encoded
            continue
        plane = _MESSAGES["XPlane"].FromString(encoded)
        names = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for stat in plane.stats:
            if names.get(stat.metadata_id) == "profile_options":
                options = _MESSAGES["ProfileOptions"].FromString(stat.bytes_value)
                return {field.name: getattr(options, field.name) for field in options.DESCRIPTOR.fields}
    return {}
