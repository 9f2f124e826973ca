"""Seeds of what this package writes itself. Nothing in them depends on the process or the time of day."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import unified_profiler as up
from tests.fuzz.trees import Seed
from unified_profiler.delivery.finishing import EndedCycle
from unified_profiler.delivery.pending import PendingCycles, store
from unified_profiler.delivery.run_writer import RankWriter, save_clocks
from unified_profiler.model.clocks import Clocks, RankClock
from unified_profiler.model.records import Failure, Manifest, TraceInfo
from unified_profiler.model.run import STEPS, Run
from unified_profiler.model.steps import StepFile
from unified_profiler.model.trace import Trace
from unified_profiler.recording.regions import NamedSpan
from unified_profiler.recording.steps import StepLog
from unified_profiler.recording.window import Step, Window
from unified_profiler.schedule import Phase
from unified_profiler.spi import NativeCapture
from unified_profiler.testing import TraceBuilder

HOST = "fuzz"
"""The machine on which all of it was written, and is read."""

_START = 1_790_857_026_000_000_000
_STEP = 1_000_000


def run() -> list[Seed]:
    """Return a run of one rank, and one of two ranks whose clocks differ."""
    return [_seed(_write_rank), _seed(_write_ranks)]


def pending() -> list[Seed]:
    """Return runs whose process was killed: with a finished cycle and without, with native files of each kind."""
    return [_seed(_write_killed), _seed(_write_killed_at_once)]


def chrome() -> list[Seed]:
    """Return exported traces."""
    traces = Run(traces=(_trace(0), _trace(1, rank=1)))
    with tempfile.TemporaryDirectory() as folder:
        up.write(Run(traces=(_trace(0),)), Path(folder, "one.json"))
        up.write(traces, Path(folder, "two.json.gz"))
        one, two = Path(folder, "one.json").read_bytes(), Path(folder, "two.json.gz").read_bytes()
    return [
        Seed({"trace.json": one}, "trace.json"),
        Seed({"trace.json.gz": two}, "trace.json.gz"),
        Seed({"trace.json": gzip.decompress(two)}, "trace.json"),
    ]


def _seed(write: Callable[[Path], None]) -> Seed:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        files = {
            file.relative_to(folder).as_posix(): file.read_bytes()
            for file in sorted(Path(folder).rglob("*"))
            if file.is_file()
        }
    return Seed(files, ".")


def _trace(cycle: int, *, rank: int = 0) -> Trace:
    start = _START + cycle * 4 * _STEP
    builder = TraceBuilder(cycle=cycle, rank=rank, host=HOST, run="run", pid=12, start_ns=start, end_ns=start + _STEP)
    builder.step(2 * cycle, start, _STEP)
    builder.op("aten::mm", start + 10, 500, op="MatMul", input_shapes="[[2,3],[3,4]]", bytes=64, flops=48)
    builder.op("aten::mm", start + 20, 100, sequence_id=3, module="net.fc", attributes='{"a":1}')
    builder.op("cudaLaunchKernel", start + 600, 50, layer="runtime", kind="runtime", correlation_id=9)
    builder.op("sgemm", start + 700, 70, layer="runtime", kind="kernel", device="cuda:0", stream=7, correlation_id=9)
    builder.op("memory", start + 800, 0, layer="hardware", kind="counter", value=1.5)
    return builder.region("forward", start + 5, 900).build()


def _write_rank(folder: Path, *, rank: int = 0, cycles: int = 2, ended: bool = True) -> None:
    writer = RankWriter(folder / f"rank-{rank:05d}")
    writer.folder.mkdir(parents=True)
    for cycle in range(cycles):
        writer.write_trace(_trace(cycle, rank=rank))
    if cycles:
        writer.list_cycles()
    steps = StepLog()
    for number in range(4):
        steps.begin(_START + number * _STEP, Phase.RECORD if number % 2 else Phase.IDLE)
        steps.ends.append(_START + (number + 1) * _STEP)
    StepFile(writer.folder / STEPS).append(steps.to_table(rank))
    writer.write_manifest(
        Manifest(
            profiler_version="1.0",
            run="run",
            rank=rank,
            world_size=2,
            host=HOST,
            pid=12,
            python="3.11",
            platform="Linux",
            settings={"record_shapes": True},
            started_ns=_START,
            ended_ns=_START + 10**9 if ended else None,
            step_count=4,
            failures=(Failure(source="torch", action="normalize", error="ValueError: x", cycle=1),),
        )
    )


def _write_ranks(folder: Path) -> None:
    for rank in range(2):
        _write_rank(folder, rank=rank, cycles=1)
    clocks = (RankClock(rank=0), RankClock(rank=1, ahead_ns=1e4, drift=1e-6, at_ns=_START))
    save_clocks(
        Run(traces=(), path=folder),
        Clocks(method="collectives", compared_count=9, ranks=clocks, traces=((0, 0), (1, 0))),
    )


def _write_killed(folder: Path) -> None:
    _write_rank(folder, cycles=1, ended=False)
    _write_pending(folder / "rank-00000", cycle=1)


def _write_killed_at_once(folder: Path) -> None:
    _write_rank(folder, cycles=0, ended=False)
    for cycle in range(2):
        _write_pending(folder / "rank-00000", cycle=cycle)


def _write_pending(rank: Path, *, cycle: int) -> None:
    pending = PendingCycles(rank / "pending")
    pending.own()
    pending.owner.release()
    folder = pending.folder_of(cycle)
    start = _START + cycle * 4 * _STEP
    events = _trace(cycle).events
    window = Window(
        cycle=cycle,
        start_ns=start,
        end_ns=start + 2 * _STEP,
        tid=7,
        thread="MainThread",
        pid=12,
        steps=(
            Step(number=2 * cycle, start_ns=start, end_ns=start + _STEP),
            Step(number=2 * cycle + 1, start_ns=start + _STEP, end_ns=start + 2 * _STEP, finished=False),
        ),
        regions=(NamedSpan("forward", start + 5, start + 900, 7, "MainThread", '{"a": 1}'),),
        calls=events.slice(0, 3),
        counters=events.slice(3),
        traced={"torch": "2.13"},
    )
    cycle_info = TraceInfo(run="run", cycle=cycle, host=HOST, pid=12, start_ns=start, end_ns=start + 2 * _STEP)
    captures = (_torch_capture(folder, start), _mindspore_capture(folder, start))
    store(EndedCycle(window=window, info=cycle_info, captures=captures, step=2, keep_native=bool(cycle)), folder)


def _torch_capture(folder: Path, start: int) -> NativeCapture:
    file = folder / "torch" / "trace.json"
    file.parent.mkdir(parents=True)
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 12, "tid": 7, "ts": 1.0, "dur": 2.5}
    file.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": start, "traceEvents": [event]}))
    return NativeCapture(
        backend="torch", files=(file,), framework_version="2.13", start_ns=start, stop_ns=start + _STEP, details={}
    )


def _mindspore_capture(folder: Path, start: int) -> NativeCapture:
    file = folder / "mindspore" / "FRAMEWORK" / "cpu_op_execute_timestamp_0.txt"
    file.parent.mkdir(parents=True)
    file.write_text(f"Default/MatMul-op0;HostCpuOps;{start + 100},0.07,0 \n")
    return NativeCapture(backend="mindspore", files=(file,), framework_version="2.10", details={"pid": 12})
