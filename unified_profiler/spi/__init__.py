"""The interface of a backend, and the building blocks that all backends share.

A backend imports only this package, `model` and `errors`. `protocols` defines the interface; the other modules are the
building blocks: reversible patches, call sites, recorder states, canonical operators, lanes, protobuf messages, and
`xplane`, the reader of the files that TensorFlow and JAX have in common.
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
