"""What a backend is, and the kit that every backend is built with.

A backend sees this package, `model` and `errors`, nothing else. `protocols` has what it must be; the other modules are
the kit: reversible patches, call sites, canonical operators, lanes, protobuf messages, and `xplane`, the reader of the
files that TensorFlow and JAX have in common.
"""

from __future__ import annotations

from unified_profiler.spi.descriptor import BackendDescriptor, lazy
from unified_profiler.spi.protocols import (
    Abilities,
    ApiSurface,
    ApiTracer,
    Backend,
    Capability,
    EnvironmentOptions,
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
    "EnvironmentOptions",
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
