"""Long trainings: what the last of a thousand cycles costs against the first ones, and what has piled up by then.

A million steps without a framework show what the Profiler itself does, fifty thousand of torch what it does together
with a native profiler. Each training is a process of its own.
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
STEPS = {"fake": 1000, "torch": 50}
"""Steps of a cycle."""
THIRD = CYCLES // 3
EARLY, LATE = slice(5, 25), slice(-20, None)
"""Cycles that are compared. The first few, which load and fill things, are none of them."""


def measure() -> list[Figure]:
    """Compare the end of long trainings with their beginning."""
    return [*_without_framework(_in_a_process("fake")), *_with_torch(_in_a_process("torch"))]


def _without_framework(found: dict[str, Any]) -> list[Figure]:
    files, length = found["files"], f"{CYCLES * STEPS['fake']} steps in {CYCLES} cycles"
    per_cycle = sum(files.values()) / CYCLES / 1e3
    hundredth, last = slice(100, 101), slice(-1, None)
    return [
        _ratio("soak: pause of the last 20 cycles / of 20 early ones", found["pauses"], EARLY, LATE, "ms", at_most=1.2),
        _ratio("soak: its processor time", found["busy"], EARLY, LATE, "ms", at_most=1.2),
        _ratio("soak: memory at the end / after 100 cycles", found["memory"], hundredth, last, "MB", at_most=1.2),
        Figure(name="soak: manifest.json", value=files["manifest.json"] / 1e3, unit="kB", at_most=10, note=length),
        Figure(name="soak: files, per cycle", value=per_cycle, unit="kB", note=f"{len(files)} files"),
        Figure(name="soak: processor time of stop()", value=found["stop"] * 1e3, unit="ms", at_most=100, note=length),
    ]


def _with_torch(found: dict[str, Any]) -> list[Figure]:
    """Set the last third of the training against the first."""
    first, last = slice(5, THIRD), slice(-THIRD, None)
    return [
        _ratio("soak, torch: memory, last third / first", found["memory"], first, last, "MB", at_most=1.1),
        _ratio("soak, torch: open descriptors", found["descriptors"], first, last, "", at_most=1.0),
        _ratio("soak, torch: threads", found["threads"], first, last, "", at_most=1.0),
        _ratio("soak, torch: pause", found["pauses"], first, last, "ms"),
    ]


def _ratio(
    name: str, values: list[float], early: slice, late: slice, unit: str, *, at_most: float | None = None
) -> Figure:
    """Compare the medians of two parts of what was measured cycle by cycle."""
    before, after = (statistics.median(values[part]) for part in (early, late))
    factor = {"ms": 1e3, "MB": 1e-6, "": 1.0}[unit]
    note = f"{before * factor:.4g} {unit}, then {after * factor:.4g} {unit}".replace(" ,", ",").rstrip()
    return Figure(name=name, value=after / before, unit="x", at_most=at_most, note=note)


def fake(folder: Path) -> dict[str, Any]:
    """Train without a framework, with a backend that records what it is told."""
    from unified_profiler.testing import FakeBackend

    backend = FakeBackend()
    return _soaked(folder, lambda: backend.op("work"), steps=STEPS["fake"], backend=backend)


def torch(folder: Path) -> dict[str, Any]:
    """Train a small model with torch."""
    import torch as framework

    framework.set_num_threads(1)
    model, rows = framework.nn.Linear(16, 16), framework.randn(4, 16)
    return _soaked(folder, lambda: model(rows).sum().backward(), steps=STEPS["torch"], backend="torch")


def _soaked(folder: Path, work: Callable[[], object], *, steps: int, **options: Any) -> dict[str, Any]:
    """Train through all cycles; return the pauses at their ends and what the process held after each of them."""
    cycles: list[dict[str, float]] = []
    plan = up.schedule(wait=steps - 5, warmup=2, active=3)
    profiler = up.Profiler(schedule=plan, output_dir=folder, strict=True, **options)
    profiler.start()
    for _ in range(CYCLES):
        for _ in range(steps - 1):
            work()
            profiler.step()
        work()
        busy = time.process_time()
        cycles.append({"pauses": seconds(profiler.step), "busy": time.process_time() - busy, **_held()})
    busy = time.process_time()
    profiler.stop()
    stop = time.process_time() - busy
    columns = {name: [cycle[name] for cycle in cycles] for name in cycles[0]}
    files = {path.name: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    return {**columns, "stop": stop, "files": files}


def _held() -> dict[str, float]:
    process = psutil.Process()
    with process.oneshot():
        return {
            "memory": process.memory_info().rss,
            "descriptors": process.num_fds(),
            "threads": process.num_threads(),
        }


def _in_a_process(way: str) -> dict[str, Any]:
    """Run a training. Kineto writes two lines per cycle to stderr, which are shown only if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.soaking", way], check=False, capture_output=True, text=True
    )
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(json.dumps({"fake": fake, "torch": torch}[sys.argv[1]](Path(temporary))))
