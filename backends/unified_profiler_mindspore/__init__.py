"""Describes the MindSpore backend; no framework is imported until something is recorded."""

from __future__ import annotations

from unified_profiler.spi import (
    Abilities,
    Backend,
    BackendDescriptor,
    Capability,
    EnvironmentOptions,
    EventConventions,
    lazy,
)

_NATIVE_OPTIONS = frozenset(
    {
        "activities", "aic_metrics", "aicore_metrics", "data_process", "data_simplification", "export_type", "hbm_ddr",
        "hccl", "host_sys", "l2_cache", "mstx", "mstx_domain_exclude", "mstx_domain_include", "parallel_strategy",
        "pcie", "profiler_level", "sync_enable", "sys_interconnection", "sys_io",
    }
)  # fmt: skip
"""Options of MS_PROFILER_OPTIONS that only MindSpore's profiler has."""

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
        environment_options=EnvironmentOptions(
            variable="MS_PROFILER_OPTIONS",
            aliases={"output_path": "output_dir", "memory": "profile_memory"},
            native=_NATIVE_OPTIONS,
        ),
        event_conventions=EventConventions(
            data_loading=r"GetNext",
            background_loading="GetNext",
            synchronizing_calls=r"aclrtSynchronize\w*$|aclrtMemcpy$",
            synchronizing_collectives=r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier",
            queues_work=True,
        ),
    ),
)
