"""The backend of toy_framework. It does without `api`, `record/allocators.py`, `canonical/flops.py`."""

from __future__ import annotations

from unified_profiler.spi import Abilities, BackendDescriptor, Capability, lazy

backend = BackendDescriptor(
    name="toy",
    module="toy_framework",
    capabilities=frozenset({Capability.SHAPES}),
    recorder=lazy("unified_profiler_toy.record.recorder:ToyRecorder"),
    normalizer=lazy("unified_profiler_toy.read.normalizer:ToyNormalizer"),
    abilities=Abilities(step_hooks=lazy("unified_profiler_toy.steps.hooks:step_hooks")),
)
