"""The exceptions that this package raises on purpose.

UnifiedProfilerError
├── ConfigurationError            an option, a variable or a settings file is wrong
│   ├── ArgumentError             a call with a keyword that does not exist, or a value of the wrong type
│   ├── ScheduleError             a schedule with impossible values
│   ├── UnknownBackendError       no backend has that name
│   └── OutputDirectoryError      the run cannot be written to this directory
├── UsageError                    a call at the wrong time: step before start, start twice
├── BackendError                  a backend failed or cannot be used
│   ├── FrameworkNotInstalledError    its framework is not installed
│   ├── UnsupportedCapabilityError    it cannot record what an option requests
│   ├── BackendBusyError              the framework's native profiler is already in use
│   └── NativeProfilerError           the native profiler failed
├── TraceFormatError              a file is damaged, empty or of another format
│   └── SchemaVersionError        a file written by a newer version of this package
├── QueryError                    SQL that failed or is not allowed
├── EngineError                   the SQL engine is missing, unreachable or failed
└── ExportError                   a trace could not be written
"""

from __future__ import annotations


class UnifiedProfilerError(Exception):
    """Root of all errors of this package."""


class ConfigurationError(UnifiedProfilerError, ValueError):
    """An option, an environment variable or a settings file has a wrong value."""


class ArgumentError(ConfigurationError, TypeError):
    """A call with an unknown keyword or with a value of the wrong type, where Python raises TypeError."""


class ScheduleError(ConfigurationError):
    """A schedule with impossible values."""


class UnknownBackendError(ConfigurationError):
    """No backend of the given name is registered."""


class OutputDirectoryError(ConfigurationError):
    """The output directory cannot be used."""


class UsageError(UnifiedProfilerError, RuntimeError):
    """A call at the wrong time."""


class BackendError(UnifiedProfilerError):
    """A backend failed or cannot be used."""


class FrameworkNotInstalledError(BackendError, ImportError):
    """The framework of a backend is not installed."""


class UnsupportedCapabilityError(BackendError):
    """A backend cannot record what an option requests."""

    def __init__(self, backend: str, option: str) -> None:
        """Name the backend and the option in the message."""
        super().__init__(
            f"Backend {backend!r} cannot record what `{option}` requests. Everything else is recorded; "
            "remove the option to avoid this message."
        )
        self.backend = backend
        self.option = option


class BackendBusyError(BackendError):
    """The framework allows one native profiler at a time, and another one is running."""


class NativeProfilerError(BackendError):
    """The native profiler failed."""


class TraceFormatError(UnifiedProfilerError, ValueError):
    """A file is damaged, empty or of another format."""


class SchemaVersionError(TraceFormatError):
    """A file written by a newer version of this package."""


class QueryError(UnifiedProfilerError, ValueError):
    """A query failed, accesses something that is not allowed, or exceeds a limit."""


class EngineError(UnifiedProfilerError, RuntimeError):
    """The SQL engine is unknown, not installed, not reachable, or failed."""


class ExportError(UnifiedProfilerError, OSError):
    """A trace could not be written."""
