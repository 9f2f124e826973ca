from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from unified_profiler.model.records import Manifest
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace
from unified_profiler.testing.builders import TraceBuilder

Times = npt.NDArray[np.float64]


def _manifest(rank: int, world_size: int, started: int, *, ended: bool, schedule: str) -> Manifest:
    return Manifest(
        profiler_version="1",
        run="run",
        rank=rank,
        world_size=world_size,
        host="h",
        pid=1,
        python="3",
        platform="p",
        started_ns=started,
        ended_ns=started + 1 if ended else None,
        settings={"schedule": schedule, "output_dir": str(started)},
    )


def _run(
    *ranks: Sequence[float] | Times,
    phase: str | Sequence[str] = "idle",
    started: int = 0,
    world_size: int | None = None,
    ended: bool = True,
    traces: Sequence[Trace] = (),
    schedule: str = "plan",
) -> Run:
    """Make a run of steps of so many nanoseconds, one sequence for each rank."""
    tables = []
    for rank, times in enumerate(ranks):
        ends = np.cumsum(np.asarray(times, np.float64).astype(np.int64)) + started
        count = len(ends)
        tables.append(
            pa.table(
                {
                    "rank": np.full(count, rank),
                    "step": np.arange(count),
                    "start_ns": np.concatenate([[started], ends[:-1]]).astype(np.int64)[:count],
                    "end_ns": ends,
                    "phase": [phase] * count if isinstance(phase, str) else list(phase),
                }
            )
        )
    size = world_size or len(ranks)
    manifests = {rank: _manifest(rank, size, started, ended=ended, schedule=schedule) for rank in range(len(ranks))}
    return Run(traces=tuple(traces), manifests=manifests, steps=pa.concat_tables(tables))


def _recorded(
    ops: dict[str, float],
    *,
    steps: int = 60,
    seed: int = 0,
    noise: float = 0.01,
    regions: bool = False,
    outside_ns: int = 1000,
    **info: object,
) -> Trace:
    """Make a trace whose steps consist of operators of about so many nanoseconds each."""
    random = np.random.default_rng(seed)
    builder = TraceBuilder(frameworks={"torch": "1"}, first_step=0, last_step=steps - 1, **info)
    at = 0
    for step in range(steps):
        times = {name: int(time * (1 + noise * random.exponential())) for name, time in ops.items()}
        builder.step(step, at, sum(times.values()) + outside_ns)
        if regions:
            builder.region("forward", at, sum(times.values()))
        for name, time in times.items():
            builder.op(name, at, time, framework="torch", op="MatMul" if name == "aten::mm" else None)
            at += time
        at += outside_ns
    return builder.build()


@pytest.fixture(scope="session")
def run_of() -> Callable[..., Run]:
    return _run


@pytest.fixture(scope="session")
def recorded() -> Callable[..., Trace]:
    return _recorded
