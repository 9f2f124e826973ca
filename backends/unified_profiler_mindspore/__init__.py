"""The MindSpore backend: a descriptor that imports no framework until something is recorded."""

from __future__ import annotations

from unified_profiler.spi import Abilities, Backend, BackendDescriptor, Capability, EventConventions, lazy

backend: Backend = BackendDescriptor(
    name="mindspore",
    module="mindspore",
    capabilities=frozenset(Capability) - {Capability.STACKS},
    recorder=lazy("unified_profiler_mindspore.record.recorder:MindSporeRecorder"),
    normalizer=lazy("unified_profiler_mindspore.read.normalizer:MindSporeNormalizer"),
    abilities=Abilities(
        step_hooks=lazy("unified_profiler_mindspore.steps.hooks:step_hooks"),
        api_surface=lazy("unified_profiler_mindspore.api.surface:MindSporeSurface"),
        allocated_bytes=lazy("unified_profiler_mindspore.record.allocators:allocated_bytes"),
    ),
    conventions=EventConventions(
        data_loading=r"GetNext",
        synchronizing_collectives=r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier",
    ),
)
