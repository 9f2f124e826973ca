"""What a backend is, and the kit that every backend is built with.

A backend sees this package, `model` and `errors`, nothing else. `protocols` has what it must be; the other modules are
the kit: reversible patches, call sites, canonical operators.
"""

from __future__ import annotations

from unified_profiler.spi.protocols import (
    ApiSurface,
    ApiTracer,
    Backend,
    Capability,
    HookRole,
    NativeCapture,
    Normalizer,
    Recorder,
    RecordOptions,
    ReportsMemory,
    ReportsStepStatistics,
    StepHook,
    StepStatistics,
    is_imported,
)

__all__ = [
    "ApiSurface",
    "ApiTracer",
    "Backend",
    "Capability",
    "HookRole",
    "NativeCapture",
    "Normalizer",
    "RecordOptions",
    "Recorder",
    "ReportsMemory",
    "ReportsStepStatistics",
    "StepHook",
    "StepStatistics",
    "is_imported",
]
