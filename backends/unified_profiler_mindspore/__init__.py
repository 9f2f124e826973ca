"""The MindSpore backend: a descriptor that imports no framework until something is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unified_profiler.spi import ApiSurface, Capability, Normalizer, Recorder, RecordOptions, StepHook

if TYPE_CHECKING:
    from unified_profiler.spi import Backend


@dataclass(frozen=True)
class MindSporeBackend:
    """Records MindSpore with mindspore.profiler."""

    name: str = "mindspore"
    module: str = "mindspore"
    capabilities: frozenset[Capability] = frozenset(
        {Capability.SHAPES, Capability.MEMORY, Capability.FLOPS, Capability.DEVICE_EVENTS}
    )

    def recorder(self, options: RecordOptions, workdir: Path) -> Recorder:
        """Make the recorder of one cycle."""
        from unified_profiler_mindspore.record.recorder import MindSporeRecorder

        return MindSporeRecorder(options, workdir)

    def normalizer(self) -> Normalizer:
        """Make the normalizer of MindSpore's captures."""
        from unified_profiler_mindspore.read.normalizer import MindSporeNormalizer

        return MindSporeNormalizer()

    def step_hooks(self) -> tuple[StepHook, ...]:
        """Return the places in MindSpore that tell the end of a step."""
        from unified_profiler_mindspore.steps.hooks import STEP_HOOKS

        return STEP_HOOKS

    def api_surface(self) -> ApiSurface:
        """Return how calls of MindSpore are seen."""
        from unified_profiler_mindspore.api.surface import MindSporeSurface

        return MindSporeSurface()

    def allocated_bytes(self) -> Mapping[str, int]:
        """Return what MindSpore's allocators have given out, by device."""
        from unified_profiler_mindspore.record.allocators import allocated_bytes

        return allocated_bytes()


backend: Backend = MindSporeBackend()
