"""How long a training waits at the end of a cycle of 422 500 events: deferred delivery, immediate, and torch alone.

Each measurement is a process of its own, since Kineto saves more slowly each time that it records in one process. They
take turns, and the middle one of each sort counts.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import unified_profiler as up
from benchmarks.figures import Figure, seconds

NATIVE = "torch.profiler (native)"
STEPS = 200
ROUNDS = 3
WAYS = ("native", "deferred", "immediate")


def measure() -> list[Figure]:
    """Compare the pauses, and the deferred one with the part of it that is the native profiler's own."""
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way in WAYS:
            runs[way].append(_in_a_process(way))
    pause = {way: statistics.median(run["pause"] for run in runs[way]) for way in WAYS}
    beyond = statistics.median(run["pause"] / run["native"] for run in runs["deferred"])
    finish = statistics.median(run["stop"] for run in runs["deferred"])
    theirs = f"torch's stop and export_chrome_trace {pause['native']:.2f} s"
    return [
        _against_torch("deferred", pause, f"{theirs}, ours {pause['deferred']:.2f} s", at_most=1.1),
        Figure(
            name="pause, deferred / native stop and file in it",
            value=beyond,
            unit="x",
            against=NATIVE,
            at_most=1.1,
            note=f"stop() makes the trace, in {finish:.2f} s",
        ),
        _against_torch("immediate", pause, f"{pause['immediate']:.2f} s, with the trace made and written"),
    ]


def _against_torch(way: str, pause: dict[str, float], note: str, *, at_most: float | None = None) -> Figure:
    ratio = pause[way] / pause["native"]
    name = f"pause, {way} / stop and export"
    return Figure(name=name, value=ratio, unit="x", against=NATIVE, at_most=at_most, note=note)


def native(folder: Path) -> dict[str, float]:
    """Record as users of torch.profiler do."""
    import torch

    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=STEPS, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(str(folder / "trace.json")),
    )
    with profiler:
        return {"pause": _pause(profiler.step)}


def deferred(folder: Path) -> dict[str, float]:
    """Record with deferred delivery; `native` is what stopping the native profiler took of the pause."""
    return _ours(folder, deliver="deferred")


def immediate(folder: Path) -> dict[str, float]:
    """Record with immediate delivery."""
    return _ours(folder, deliver="immediate")


def _ours(folder: Path, **options: Any) -> dict[str, float]:
    from unified_profiler_torch.record.recorder import TorchRecorder

    stopping, stop = list[float](), TorchRecorder.stop

    def timed_stop(self: TorchRecorder) -> Any:
        captures: list[Any] = []
        stopping.append(seconds(lambda: captures.append(stop(self))))
        return captures[0]

    TorchRecorder.stop = timed_stop  # type: ignore[method-assign]
    plan = up.schedule(wait=1, warmup=1, active=STEPS, repeat=1)
    profiler = up.Profiler(schedule=plan, output_dir=folder, backend="torch", strict=True, **options)
    profiler.start()
    pause = _pause(profiler.step)
    return {"pause": pause, "native": stopping[0], "stop": seconds(profiler.stop)}


def _pause(mark: Callable[[], None]) -> float:
    """Train through one cycle and return how long the call took that ended it."""
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(50)])
    batch = torch.randn(4, 32)
    for _ in range(STEPS + 1):
        model(batch).sum().backward()
        mark()
    model(batch).sum().backward()
    return seconds(mark)


def _in_a_process(way: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.pausing", way]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(
            json.dumps({"native": native, "deferred": deferred, "immediate": immediate}[sys.argv[1]](Path(temporary)))
        )
