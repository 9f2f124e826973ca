"""The PyTorch backend: a descriptor that imports no framework until something is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unified_profiler.spi import ApiSurface, Capability, Normalizer, Recorder, RecordOptions, StepHook

if TYPE_CHECKING:
    from unified_profiler.spi import Backend


@dataclass(frozen=True)
class TorchBackend:
    """Records PyTorch with torch.profiler."""

    name: str = "torch"
    module: str = "torch"
    capabilities: frozenset[Capability] = frozenset(Capability)

    def recorder(self, options: RecordOptions, workdir: Path) -> Recorder:
        """Make the recorder of one cycle."""
        from unified_profiler_torch.record.recorder import TorchRecorder

        return TorchRecorder(options, workdir)

    def normalizer(self) -> Normalizer:
        """Make the normalizer of Kineto traces."""
        from unified_profiler_torch.read.normalizer import KinetoNormalizer

        return KinetoNormalizer()

    def step_hooks(self) -> tuple[StepHook, ...]:
        """Return the places in torch that tell the end of a step."""
        from unified_profiler_torch.steps.hooks import STEP_HOOKS

        return STEP_HOOKS

    def api_surface(self) -> ApiSurface:
        """Return how calls of PyTorch are seen."""
        from unified_profiler_torch.api.surface import TorchSurface

        return TorchSurface()

    def allocated_bytes(self) -> Mapping[str, int]:
        """Return what PyTorch's allocators have given out, by device."""
        from unified_profiler_torch.record.allocators import allocated_bytes

        return allocated_bytes()


backend: Backend = TorchBackend()
