"""What a backend is, and the kit that every backend is built with.

A backend sees this package, `model` and `errors`, nothing else. `protocols` has what it must be; the other modules are
the kit: reversible patches, call sites, canonical operators.
"""

from __future__ import annotations

from unified_profiler.spi.conventions import EventConventions
from unified_profiler.spi.descriptor import BackendDescriptor, lazy
from unified_profiler.spi.protocols import (
    Abilities,
    ApiSurface,
    ApiTracer,
    Backend,
    Capability,
    HookRole,
    NativeCapture,
    Normalizer,
    Recorder,
    RecordOptions,
    StepHook,
    StepStatistics,
    is_imported,
)

__all__ = [
    "Abilities",
    "ApiSurface",
    "ApiTracer",
    "Backend",
    "BackendDescriptor",
    "Capability",
    "EventConventions",
    "HookRole",
    "NativeCapture",
    "Normalizer",
    "RecordOptions",
    "Recorder",
    "StepHook",
    "StepStatistics",
    "is_imported",
    "lazy",
]
