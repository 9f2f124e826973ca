"""Declares the TensorFlow backend; TensorFlow itself is not imported until recording starts."""

from __future__ import annotations

from unified_profiler.spi import Abilities, Backend, BackendDescriptor, Capability, EventConventions, lazy

backend: Backend = BackendDescriptor(
    name="tensorflow",
    module="tensorflow",
    capabilities=frozenset(Capability),
    recorder=lazy("unified_profiler_tensorflow.record.recorder:TensorFlowRecorder"),
    normalizer=lazy("unified_profiler_tensorflow.read.normalizer:TensorFlowNormalizer"),
    abilities=Abilities(
        step_hooks=lazy("unified_profiler_tensorflow.steps.hooks:step_hooks"),
        api_surface=lazy("unified_profiler_tensorflow.api.surface:TensorFlowSurface"),
        allocated_bytes=lazy("unified_profiler_tensorflow.record.allocators:allocated_bytes"),
        step_statistics=lazy("unified_profiler_tensorflow.read.run_metadata.text:step_statistics"),
        routine_messages=r"I\d{4} [^\n]*\b(profiler_session|save_profile|remote_profiler_session_manager)\.cc:",
        event_conventions=EventConventions(
            data_loading=r"GetNext|^ReduceIterator::",
            background_loading="GetNext",
            synchronizing_calls=r"^(cuda|cu|hip)\w*Synchronize$|^(cu|hip)Memcpy(HtoD|DtoH)(_v2)?$",
            synchronizing_collectives=r"CollectiveReduce|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier",
        ),
    ),
)
