"""Describes the PyTorch backend; PyTorch is imported only when a part that needs it is used."""

from __future__ import annotations

from unified_profiler.spi import Abilities, Backend, BackendDescriptor, Capability, EventConventions, lazy

backend: Backend = BackendDescriptor(
    name="torch",
    module="torch",
    capabilities=frozenset(Capability),
    recorder=lazy("unified_profiler_torch.record.recorder:TorchRecorder"),
    normalizer=lazy("unified_profiler_torch.read.normalizer:KinetoNormalizer"),
    abilities=Abilities(
        step_hooks=lazy("unified_profiler_torch.steps.hooks:step_hooks"),
        api_surface=lazy("unified_profiler_torch.api.surface:TorchSurface"),
        allocated_bytes=lazy("unified_profiler_torch.record.allocators:allocated_bytes"),
        # the second one comes from builds for CUDA on machines without a driver (35) or a device (100)
        routine_messages=r"USDT:|.*gpuGetDeviceCount failed with code (35|100)$",
        event_conventions=EventConventions(
            data_loading=r"enumerate\(DataLoader\)",
            background_loading="_MultiProcessingDataLoaderIter",
            synchronizing_collectives=r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier",
            collective_name_key="Collective name",
            collective_ranks_key="Process Group Ranks",
            collective_group_key="Process Group Name",
            collective_group_size_key="Group size",
            collective_elements_keys=("In msg nelems", "Out msg nelems"),
            collective_type_key="dtype",
            grid_keys=("grid", "block"),
            synchronizing_calls=r"synchronize|^cudaMemcpy$|^hipMemcpy(WithStream)?$",
            pinned_copies=r"\bPinned\b",
            pageable_copies=r"\bPageable\b",
        ),
    ),
)
