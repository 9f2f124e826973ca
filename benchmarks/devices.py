"""Reading and device analyses against HolisticTraceAnalysis: CPU seconds and peak memory, each side in its own process.

The traces are a GPU trace repeated to 215 000 events and 297 000 CPU events recorded here. The two sides take turns.
HTA lives in an environment of its own, which `make bench` creates; without it only our own times are reported. A third
trace, of an AMD GPU, has arguments that are in no layout; HTA, which takes more than a minute for it, does not read it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.large_traces import NCCL_RANK, ROCM, recorded_cpu_trace, repeated_gpu_trace
from benchmarks.normalizing import peak_memory

ROOT = Path(__file__).parents[1]
PEER = Path(os.environ.get("HTA_PYTHON", ROOT / ".venv-hta" / "bin" / "python"))
HTA = "HolisticTraceAnalysis 0.5.0 (peer)"
ROUNDS = 3
COPIES, ROCM_COPIES, CPU_STEPS = 8, 1500, 141

ANALYSES: dict[str, tuple[str, ...]] = {
    "device_table": ("temporal breakdown", "idle time breakdown", "communication overlap"),
    "kernel_table": ("kernel breakdown",),
    "launch_table": ("launch statistics",),
    "queue_table": ("queue length",),
    "copy_table": ("memory bandwidth",),
    "collective_table": (),
    "critical_path": ("critical path",),
}
"""Our analyses, and those of HTA that they replace together."""


def measure() -> list[Figure]:
    """Measure all traces."""
    with tempfile.TemporaryDirectory() as temporary:
        gpu = repeated_gpu_trace(Path(temporary) / "gpu.json", times=COPIES)
        ours, theirs = _sides(gpu, list(ANALYSES))
        rocm = repeated_gpu_trace(Path(temporary) / "rocm.json", times=ROCM_COPIES, source=ROCM)
        figures = [*_gpu_figures(ours, theirs), _cost("GPU trace", ours), _cost("ROCm trace", _ours(rocm))]
        cpu = recorded_cpu_trace(Path(temporary) / "cpu.json", steps=CPU_STEPS)
        return figures + _reading("CPU trace", *_sides(cpu, []))


def measure_ours(path: str, analyses: Sequence[str]) -> dict[str, Any]:
    """Return our CPU seconds of reading and of each analysis, and the peak memory, as hta_peer does for HTA.

    A small trace is analyzed first, so that imports count on neither side.
    """
    import unified_profiler as up

    small = up.read(NCCL_RANK)
    for name in analyses:
        getattr(up, name)(small)
    del small
    start = time.process_time()
    run = up.read(path)
    events = len(run.traces[0].events)
    figures: dict[str, Any] = {"seconds": {"read": time.process_time() - start}, "peak_read": peak_memory()}
    for name in analyses:
        start = time.process_time()
        getattr(up, name)(run)
        figures["seconds"][name] = time.process_time() - start
    return {**figures, "events": events, "peak": peak_memory()}


def _sides(path: Path, analyses: list[str]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Measure ours and HTA in turn and return the medians; None for HTA if it is not installed."""
    parts = [part for name in analyses for part in ANALYSES[name]]
    peer_command = [str(PEER), str(ROOT / "benchmarks" / "hta_peer.py"), str(NCCL_RANK), str(path), *parts]
    installed = PEER.exists()
    if not installed:
        sys.stderr.write("measuring: HolisticTraceAnalysis is not installed, so nothing is compared with it.\n")
    rounds = [(_run(_command(path, analyses)), _run(peer_command) if installed else None) for _ in range(ROUNDS)]
    theirs = [peer for _, peer in rounds if peer is not None]
    return _medians([ours for ours, _ in rounds]), _medians(theirs) if theirs else None


def _ours(path: Path) -> dict[str, Any]:
    """Measure our reading alone."""
    return _medians([_run(_command(path, [])) for _ in range(ROUNDS)])


def _command(path: Path, analyses: list[str]) -> list[str]:
    return [sys.executable, "-m", "benchmarks.devices", str(path), *analyses]


def _run(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = {name: statistics.median(each["seconds"][name] for each in rounds) for name in rounds[0]["seconds"]}
    memory = {name: statistics.median(each[name] for each in rounds) for name in ("peak_read", "peak")}
    return {"seconds": seconds, "events": rounds[0]["events"], **memory}


def _gpu_figures(ours: dict[str, Any], theirs: dict[str, Any] | None) -> list[Figure]:
    figures = _reading("GPU trace", ours, theirs)
    for name, parts in ANALYSES.items():
        spent = ours["seconds"][name]
        if theirs is None or not parts:
            figures.append(
                Figure(name=f"{name}, beyond reading", value=spent, unit="s", note=f"{ours['events']} events")
            )
            continue
        peer = sum(theirs["seconds"][part] for part in parts)
        note = f"{' + '.join(parts)} {peer:.3f} s, ours {spent:.3f} s"
        figures.append(_ratio(f"HTA / {name}", peer / spent, at_least=10, note=note))
    if theirs is not None:
        figures.append(_memory("all analyses", ours["peak"], theirs["peak"]))
    return figures


def _reading(trace: str, ours: dict[str, Any], theirs: dict[str, Any] | None) -> list[Figure]:
    spent, events = ours["seconds"]["read"], ours["events"]
    cost = f"{events} events, {spent / events * 1e6:.2f} us an event"
    if theirs is None:
        return [Figure(name=f"reading a {trace}", value=spent, unit="s", note=cost)]
    peer = theirs["seconds"]["read"]
    return [
        _ratio(
            f"HTA / reading a {trace}", peer / spent, at_least=5, note=f"{cost}: HTA {peer:.2f} s, ours {spent:.2f} s"
        ),
        _memory(f"reading a {trace}", ours["peak_read"], theirs["peak_read"]),
    ]


def _cost(trace: str, ours: dict[str, Any]) -> Figure:
    cost = ours["seconds"]["read"] / ours["events"] * 1e6
    note = f"{ours['events']} events"
    return Figure(name=f"reading a {trace}: cost of an event", value=cost, unit="us", at_most=3, note=note)


def _ratio(name: str, value: float, *, at_least: float, note: str) -> Figure:
    return Figure(name=name, value=value, unit="x", against=HTA, at_least=at_least, note=note)


def _memory(name: str, ours: float, theirs: float) -> Figure:
    note = f"HTA {theirs / 1e6:.0f} MB, ours {ours / 1e6:.0f} MB"
    return Figure(name=f"{name}: peak memory / HTA", value=ours / theirs, unit="x", against=HTA, at_most=1, note=note)


if __name__ == "__main__":
    print(json.dumps(measure_ours(sys.argv[1], sys.argv[2:])))
