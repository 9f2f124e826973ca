"""Every exception this package raises on purpose, and nothing else.

UnifiedProfilerError
├── ConfigurationError            an option, a variable or a settings file is wrong
│   ├── ArgumentError             a call with a keyword that does not exist, or a value of the wrong type
│   ├── ScheduleError             a schedule that cannot be followed
│   ├── UnknownBackendError       no backend of that name
│   └── OutputDirectoryError      the run cannot be written there
├── UsageError                    a call at the wrong moment: step before start, start twice
├── BackendError                  something about one backend
│   ├── FrameworkNotInstalledError    its framework is not there
│   ├── UnsupportedCapabilityError    it cannot record what was asked for
│   ├── BackendBusyError              the framework's native profiler is taken
│   └── NativeProfilerError           the native profiler failed
├── TraceFormatError              a file is not what it should be
│   └── SchemaVersionError        a file of a newer version of this package
├── QueryError                    SQL that failed or is not allowed
├── EngineError                   what is to execute SQL cannot be had, or failed
└── ExportError                   a trace could not be written
"""

from __future__ import annotations


class UnifiedProfilerError(Exception):
    """Root of all errors of this package."""


class ConfigurationError(UnifiedProfilerError, ValueError):
    """An option, an environment variable or a settings file holds a wrong value."""


class ArgumentError(ConfigurationError, TypeError):
    """A call with a keyword that does not exist, or with a value of the wrong type: what Python calls a TypeError."""


class ScheduleError(ConfigurationError):
    """A schedule that cannot be followed."""


class UnknownBackendError(ConfigurationError):
    """No backend of the given name is registered."""


class OutputDirectoryError(ConfigurationError):
    """The output directory cannot be used."""


class UsageError(UnifiedProfilerError, RuntimeError):
    """A call at the wrong moment."""


class BackendError(UnifiedProfilerError):
    """Something went wrong in or with one backend."""


class FrameworkNotInstalledError(BackendError, ImportError):
    """The framework of a backend is not installed."""


class UnsupportedCapabilityError(BackendError):
    """A backend cannot record what was asked for."""

    def __init__(self, backend: str, option: str) -> None:
        """Say which backend cannot do what which option asks for."""
        super().__init__(
            f"Backend {backend!r} cannot record what `{option}` asks for. Everything else is recorded; "
            "leave the option out to be rid of this message."
        )
        self.backend = backend


class BackendBusyError(BackendError):
    """The framework allows one native profiler at a time, and it is taken."""


class NativeProfilerError(BackendError):
    """The native profiler failed."""


class TraceFormatError(UnifiedProfilerError, ValueError):
    """A file that was to be read is damaged, empty or of another kind."""


class SchemaVersionError(TraceFormatError):
    """A file written by a newer version of this package."""


class QueryError(UnifiedProfilerError, ValueError):
    """A query that failed, reaches for what queries may not reach, or exceeds a limit."""


class EngineError(UnifiedProfilerError, RuntimeError):
    """What is to execute queries is not known, not installed, not reachable, or failed."""


class ExportError(UnifiedProfilerError, OSError):
    """A trace could not be written."""
