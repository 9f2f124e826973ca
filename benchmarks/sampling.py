"""What sampling the hardware costs: CPU time of its thread, and whether a recorded training notices it."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

import unified_profiler as up
from benchmarks.figures import Figure, interleaved
from benchmarks.recording import STEPS, training
from unified_profiler.recording.faults import FaultLog
from unified_profiler.recording.hardware.sampler import HardwareSampler

SECONDS = 10.0
HZ = 10


def measure() -> list[Figure]:
    """Measure the thread beside a process that waits, one that keeps Python busy, and one that trains."""
    step = training()
    return [
        _share("waits", lambda: time.sleep(0.01)),
        _share("is busy in Python", lambda: sum(range(1000))),
        _share("trains", step),
        _slowdown(step),
    ]


def _slowdown(step: Callable[[], None]) -> Figure:
    """Compare a training with and without sampling; without a bound, since two loops differ by more than it costs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several that wait for each other make any other process on the machine show
    sampled, without = interleaved(lambda: _loop(step, HZ), lambda: _loop(step, 0), rounds=11)
    one, other = interleaved(lambda: _loop(step, 0), lambda: _loop(step, 0), rounds=11)
    torch.set_num_threads(threads)
    note = f"0 Hz against itself: {one / other:.3f}"
    return Figure(name=f"training loop: {HZ} Hz / 0 Hz", value=sampled / without, unit="x", note=note)


def _share(what: str, work: Callable[[], object]) -> Figure:
    """Return the share of a core that ten readings a second take."""
    sampler = HardwareSampler(hz=HZ, clock=time.time_ns, faults=FaultLog(strict=True))
    sampler.prepare((), cycle=0)
    sampler.begin()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        work()
    sampler.end()
    spent = sampler.sampling.cpu_ns if sampler.sampling is not None else 0
    note = f"{spent / SECONDS / HZ / 1e3:.0f} us a reading"
    share = spent / SECONDS / 1e9 * 100
    return Figure(name=f"sampling at {HZ} Hz, the process {what}", value=share, unit="%", at_most=0.5, note=note)


def _loop(step: Callable[[], None], hz: float) -> float:
    """Return how long a loop takes: half a second or more, so that there are several readings in it."""
    profiler = up.Profiler(level=1, hardware_hz=hz, strict=True)
    with profiler:
        start = time.perf_counter()
        for _ in range(2 * STEPS):
            step()
            profiler.step()
        return time.perf_counter() - start
