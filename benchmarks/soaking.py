"""Long trainings: what the last of a thousand cycles costs against the first ones, and what piles up meanwhile.

A million steps without a framework show what the Profiler itself does; fifty thousand of torch show it together with a
native profiler. Each is a process of its own.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

import unified_profiler as up
from benchmarks.figures import Figure, seconds

CYCLES = 1000
STEPS_OF_A_CYCLE = {"fake": 1000, "torch": 50}
EARLY, LATE = slice(5, 25), slice(-20, None)
"""Cycles whose pauses are compared: the first few, which load and fill things, are none of them."""


def measure() -> list[Figure]:
    """Compare the end of long trainings with their beginning."""
    return [*_without_framework(_in_a_process("fake")), *_with_torch(_in_a_process("torch"))]


def _without_framework(found: dict[str, Any]) -> list[Figure]:
    early, late = (statistics.median(found["pauses"][part]) for part in (EARLY, LATE))
    memory, files = found["memory"], found["files"]
    steps = CYCLES * STEPS_OF_A_CYCLE["fake"]
    return [
        _ratio("pause at the end of a cycle", early, late, 1e3, "ms", at_most=1.2),
        _ratio("memory at the end / after 100 cycles", memory[100], memory[-1], 1e-6, "MB", at_most=1.2),
        Figure(name="manifest.json", value=files["manifest.json"] / 1e3, unit="kB", at_most=100),
        Figure(
            name="files of the run, per cycle",
            value=sum(files.values()) / CYCLES / 1e3,
            unit="kB",
            note=f"{len(files)} files",
        ),
        Figure(
            name="processor time of stop()",
            value=found["stop"],
            unit="s",
            at_most=1.0,
            note=f"after {steps} steps in {CYCLES} cycles",
        ),
    ]


def _with_torch(found: dict[str, Any]) -> list[Figure]:
    """Set the last third of the training against the first."""
    third = CYCLES // 3

    def ratio(name: str, key: str, factor: float, unit: str, *, at_most: float) -> Figure:
        first, last = (statistics.median(found[key][part]) for part in (slice(5, third), slice(-third, None)))
        return _ratio(f"torch: {name}, last third / first", first, last, factor, unit, at_most=at_most)

    return [
        ratio("memory", "memory", 1e-6, "MB", at_most=1.1),
        ratio("open descriptors", "descriptors", 1, "", at_most=1.0),
        ratio("threads", "threads", 1, "", at_most=1.0),
    ]


def _ratio(name: str, early: float, late: float, factor: float, unit: str, *, at_most: float) -> Figure:
    note = f"{early * factor:.4g} {unit}".strip() + f", then {late * factor:.4g} {unit}".rstrip()
    return Figure(name=name, value=late / early, unit="x", at_most=at_most, note=note)


def fake(folder: Path) -> dict[str, Any]:
    """Train without a framework: the backend records what it is told."""
    from unified_profiler.testing import FakeBackend

    backend = FakeBackend()
    return _soaked(folder, lambda: backend.op("work"), steps=STEPS_OF_A_CYCLE["fake"], backend=backend)


def torch(folder: Path) -> dict[str, Any]:
    """Train a small model with torch."""
    import torch as framework

    framework.set_num_threads(1)
    model, rows = framework.nn.Linear(16, 16), framework.randn(4, 16)
    return _soaked(folder, lambda: model(rows).sum().backward(), steps=STEPS_OF_A_CYCLE["torch"], backend="torch")


def _soaked(folder: Path, work: Callable[[], object], *, steps: int, **options: Any) -> dict[str, Any]:
    """Train through all cycles and return pauses and, at the end of each cycle, what the process holds."""
    plan = up.schedule(wait=steps - 5, warmup=2, active=3)
    process = psutil.Process()
    pauses, memory, descriptors, threads = list[float](), list[int](), list[int](), list[int]()
    profiler = up.Profiler(schedule=plan, output_dir=folder, strict=True, **options)
    profiler.start()
    for _ in range(CYCLES):
        for _ in range(steps - 1):
            work()
            profiler.step()
        work()
        pauses.append(seconds(profiler.step))
        memory.append(process.memory_info().rss)
        descriptors.append(process.num_fds())
        threads.append(process.num_threads())
    before = time.process_time()
    profiler.stop()
    return {
        "pauses": pauses,
        "memory": memory,
        "descriptors": descriptors,
        "threads": threads,
        "stop": time.process_time() - before,
        "files": _sizes(folder),
    }


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def _in_a_process(way: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.soaking", way]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(json.dumps({"fake": fake, "torch": torch}[sys.argv[1]](Path(temporary))))
