"""The TensorFlow backend: a descriptor that imports no framework until something is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unified_profiler.spi import (
    ApiSurface,
    Capability,
    Normalizer,
    Recorder,
    RecordOptions,
    StepHook,
    StepStatistics,
)

if TYPE_CHECKING:
    from unified_profiler.spi import Backend


@dataclass(frozen=True)
class TensorFlowBackend:
    """Records TensorFlow with RunMetadata and XPlane."""

    name: str = "tensorflow"
    module: str = "tensorflow"
    capabilities: frozenset[Capability] = frozenset(
        {Capability.SHAPES, Capability.MEMORY, Capability.STACKS, Capability.FLOPS, Capability.DEVICE_EVENTS}
    )

    def recorder(self, options: RecordOptions, workdir: Path) -> Recorder:
        """Make the recorder of one cycle."""
        from unified_profiler_tensorflow.record.recorder import TensorFlowRecorder

        return TensorFlowRecorder(options, workdir)

    def normalizer(self) -> Normalizer:
        """Make the normalizer of TensorFlow's captures."""
        from unified_profiler_tensorflow.read.normalizer import TensorFlowNormalizer

        return TensorFlowNormalizer()

    def step_hooks(self) -> tuple[StepHook, ...]:
        """Return the places in TensorFlow that tell the end of a step."""
        from unified_profiler_tensorflow.steps.hooks import STEP_HOOKS

        return STEP_HOOKS

    def api_surface(self) -> ApiSurface:
        """Return how calls of TensorFlow and Keras are seen."""
        from unified_profiler_tensorflow.api.surface import TensorFlowSurface

        return TensorFlowSurface()

    def allocated_bytes(self) -> Mapping[str, int]:
        """Return what TensorFlow's allocators have given out, by device."""
        from unified_profiler_tensorflow.record.allocators import allocated_bytes

        return allocated_bytes()

    def step_statistics(self, folder: Path) -> Iterable[StepStatistics]:
        """Return the StepStats of the runs of sessions among the native files of a cycle."""
        from unified_profiler_tensorflow.read.run_metadata.text import step_statistics

        return step_statistics(folder)


backend: Backend = TensorFlowBackend()
