"""A user's program and a backend, which mypy checks strictly: every public name, used as documented."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import unified_profiler as up
from unified_profiler.analysis import DeviceTable, RankTable
from unified_profiler.analysis.critical_path import CriticalPath, WhatIf
from unified_profiler.engine import Result
from unified_profiler.errors import ArgumentError, BackendError, QueryError
from unified_profiler.integrations import keras, lightning, mindspore, tensorflow, transformers
from unified_profiler.model.schema import EventTable, empty_table
from unified_profiler.spi import (
    Abilities,
    ApiSurface,
    ApiTracer,
    Backend,
    BackendDescriptor,
    Capability,
    EnvironmentOptions,
    EventConventions,
    HookRole,
    NativeCapture,
    Normalizer,
    Recorder,
    RecordOptions,
    StepHook,
    StepStatistics,
    is_imported,
    lazy,
)
from unified_profiler.testing import (
    BackendConformance,
    Divergence,
    FakeBackend,
    FakeClock,
    FakeRecorder,
    FakeSurface,
    TraceBuilder,
    never,
    notimpl,
    notyet,
    recorded_calls,
    timed_events,
)


def print_trace(trace: up.Trace) -> None:
    print(trace.info.rank, trace.info.complete, len(trace))


def phase_of(step: int) -> up.Phase:
    return up.Phase.RECORD if step % 10 == 0 else up.Phase.IDLE


plan: up.Schedule = up.schedule(wait=1, warmup=1, active=3, repeat=2, skip_first=1, skip_first_wait=0)
slot: up.Slot = plan.at(3)
phase: up.Phase = slot.phase
version: str = up.__version__

with up.Profiler(
    schedule=plan,
    output_dir=Path("profile"),
    backend="auto",
    on_trace_ready=[print_trace],
    level=2,
    record_shapes=True,
    profile_memory=True,
    with_stack=False,
    with_flops=True,
    with_modules=True,
    api={"inside": True, "include": ["torch.nn.*"]},
    operators=True,
    hardware_hz=20,
    keep_native=False,
    max_events=1_000_000,
    record_command=False,
    deliver="deferred",
    native_options={"torch": {"acc_events": True}},
    strict=False,
) as profiler:
    for _ in range(10):
        with profiler.region("forward", meta={"batch": 16}):
            pass
        profiler.region_begin("backward")
        profiler.region_end("backward", meta="done")
        profiler.step()


@profiler.region("validation")
def validate(batches: int) -> float:
    return float(batches)


@up.Profiler(schedule=phase_of, output_dir="profile", on_trace_ready=print_trace, backend=["torch"])
def train(steps: int, *, rate: float = 0.1) -> float:
    return steps * rate


loss: float = train(3, rate=0.2) + validate(3)
run: up.Run = profiler.run
trace: up.Trace = profiler.traces[-1]
failures: list[str] = [failure.error for failure in profiler.failures]
ranks: list[int] = up.read(Path("profile")).ranks
table: Result = up.op_table(run, by=("name", "shapes"), sort_by="self_cpu_time_total", row_limit=10)
names: tuple[str, ...] = table.columns
summary: up.Summary = up.summarize(trace)
sentences: list[str] = [finding.text for finding in summary.findings]
aligned: up.Run = up.align_clocks(up.read("profile"))
ranks_table: RankTable = up.rank_table(aligned)
devices: DeviceTable = up.device_table(run, by="stream")
idle: list[str] = [statement.text for statement in devices.verdict]
of_devices: list[Result] = [
    *(devices.devices, devices.classes, up.gap_table(run, by="stream", row_limit=5), up.launch_table(run, by="kernel")),
    *(up.queue_table(run, full=1024), up.copy_table(trace), up.collective_table(run), up.kernel_table(run)),
    up.kernel_sequences(run, length=4, row_limit=None),
]
path: CriticalPath = up.critical_path(aligned, step=3, rank=0)
path_shares: Result = path.contributions
prediction: WhatIf = up.what_if(aligned, {"aten::conv2d": 0.5, "data": 0}, step=3)
assumed: list[str] = [assumption.text for assumption in prediction.assumptions]
slow: list[int] = [straggler.rank for straggler in ranks_table.stragglers]
text: str = str(table) + str(up.step_breakdown(trace))
comparison: up.Diff = up.diff(up.read("before"), trace, by="origin", threshold="5%")
slower: list[str | None] = [row.name for row in comparison.rows if row.differs and row.difference_ns > 0]
judged: up.Gate = up.gate([up.read("before"), trace], run, max_regression="5%", metric=["step", "op:aten::mm"], rank=0)
passed: bool = judged.verdict is up.Verdict.WITHIN
code: int = judged.verdict.exit_code
reasons: list[str] = [judgment.reason.text for judgment in judged.judgments]
mapped: up.Run = up.with_op_map(run, Path("map.toml"))
written: Path = up.write(trace, "trace.json.gz")

try:  # misspelt keywords are errors for type checkers, too: an ignored error that is none is one itself
    up.Profiler(record_shape=True)  # type: ignore[call-arg]
    up.schedule(wait=1, warmpu=1, active=1)  # type: ignore[call-arg]
    up.Schedule(wait=1, warmpu=1, active=1)  # type: ignore[call-arg]
    up.trace_api(inclde="torch.*")  # type: ignore[call-arg]
    up.op_table(trace, sort="self_ns")  # type: ignore[call-arg]
    up.gate(run, run, max_regresion="5%")  # type: ignore[call-arg]
except ArgumentError as mistake:
    wrong_call: TypeError = mistake
    wrong_value: ValueError = mistake

with up.SparkEngine("spark://10.0.0.5:7077") as engine:
    elsewhere: up.Run = up.read("hdfs://name-node/profile", engine=engine)
    counts = up.query(elsewhere, "select count(*) from events", engine=engine)
    embedded = up.op_table(run, engine=up.DuckDBEngine())

try:
    up.query(trace, "select count(*) from events")
except (QueryError, BackendError) as error:
    problem: up.UnifiedProfilerError = error


@up.trace_api(inside=True, include="torch.*", exclude=["torch.Tensor.*"], arguments=False, synchronize=True)
def predict(batch: int) -> int:
    return batch


with up.trace_api(backend="torch", with_modules=True, output_dir=Path("calls"), on_trace_ready=print_trace) as tracer:
    answer: int = predict(1)
calls = up.api_table(tracer.run, sort_by="total_ns", row_limit=5)
with up.log_api_calls("performance.log") as log:
    log.info("epoch 1")
shared: up.Profiler = up.default_profiler(output_dir="profile")
models: Path = up.write_models_layout(tracer.run, "profile-models")
files: list[Path] = up.write_api_calls(tracer.run)
files = up.write_api_calls(tracer.run, "calls", format="csv", file_max_size="1MB", file_name_spec="serial")
full_name: str = up.api_name(print)

# --- callbacks and hooks ----------------------------------------------------------------------------------------------

callback = keras.ProfilerCallback(steps=(2, 4), by="epoch", output_dir="profile")
batches: int | None = callback.batches_per_step
callbacks: list[up.Profiler] = [
    callback.profiler,
    lightning.ProfilerCallback(profiler, by="batch").profiler,
    mindspore.ProfilerCallback(steps=(2, 4), by="step").profiler,
    transformers.ProfilerCallback(schedule=plan, by="step").profiler,
    tensorflow.ProfilerHook(steps=(2, 4), graph="mlp").profiler,
]
session: object = tensorflow.profiled_session(object(), profiler, graph="mlp", step_per_run=True)

# --- a backend --------------------------------------------------------------------------------------------------------


class TinyRecorder:
    def __init__(self, options: RecordOptions, workdir: Path) -> None:
        self.wanted: frozenset[Capability] = options.wanted()
        self.file = workdir / "tiny.json"

    def arm(self) -> None: ...

    def start(self) -> None: ...

    def mark_step(self, step: int) -> None: ...

    def synchronize(self) -> None: ...

    def stop(self) -> NativeCapture:
        return NativeCapture(backend="tiny", files=(self.file,), framework_version="1.0", details={"steps": 3})

    def discard(self) -> None: ...


class TinyNormalizer:
    def recognizes(self, path: Path) -> bool:
        return path.suffix == ".json"

    def normalize(self, capture: NativeCapture) -> EventTable:
        return empty_table()


def install_hook(module: ModuleType, report: Callable[[int], None]) -> Callable[[], None]:
    report(id(module))
    return lambda: None


def step_hooks() -> list[StepHook]:
    ends = StepHook(signal="optimizer", module="tiny", install=install_hook, priority=0)
    return [ends, StepHook(signal="fit", module="tiny", install=install_hook, role=HookRole.EVALUATION_BEGIN)]


def step_statistics(directory: Path) -> list[StepStatistics]:
    return [StepStatistics(step=0, graph=None, text=(directory / "statistics").read_text)]


recorder: Recorder = TinyRecorder(RecordOptions(record_shapes=True), Path("work"))
normalizer: Normalizer = TinyNormalizer()
tiny: Backend = BackendDescriptor(
    name="tiny",
    module="wave",
    capabilities=frozenset({Capability.SHAPES}),
    recorder=TinyRecorder,
    normalizer=lazy("tiny.read:TinyNormalizer"),
    abilities=Abilities(
        step_hooks=step_hooks,
        api_surface=FakeSurface,
        allocated_bytes=lambda: {"cpu:0": 1024},
        step_statistics=step_statistics,
        event_conventions=EventConventions(data_loading=r"next_batch", synchronizing_collectives=r"all_?reduce"),
        environment_options=EnvironmentOptions(
            variable="TINY_OPTIONS", aliases={"path": "output_dir"}, native=frozenset({"detail"})
        ),
    ),
)
imported: bool = is_imported(tiny.module)


def trace_surface(surface: ApiSurface, tracer: ApiTracer) -> list[str]:
    surface.install(tracer)
    return list(surface.names())


class TestTiny(BackendConformance):
    backend = tiny
    module = "tiny"
    divergences: ClassVar = {Capability.STACKS: never("no stacks"), Capability.FLOPS: notyet("no shapes")}

    def work(self) -> Any:
        return 1.0


missing: Divergence = notimpl("not written")
fake = FakeBackend()
fake_backend: Backend = fake
fake_recorder: FakeRecorder = fake.recorder(RecordOptions(), Path("work"))
with up.Profiler(backend=[tiny, fake], clock=FakeClock(tick_ns=1000)) as faked:
    fake.op("tiny::work")
    faked.step()
traced: list[dict[str, Any]] = recorded_calls(faked)
built: up.Trace = TraceBuilder(rank=0, world_size=1).step(0, 0, 1000).op("aten::mm", 100, 300).build()
events: EventTable = timed_events(("aten::mm", "op", 0, 10))
