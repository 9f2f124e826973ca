"""From stop to a finished table: ours against torch's own, on one capture; size, memory and growth beside it.

Everything is a ratio of two figures of the same run, so that a busy machine changes little.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, seconds
from unified_profiler.model.assembly import assemble
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.storage import write_parquet
from unified_profiler.model.trace import Trace
from unified_profiler.spi import NativeCapture
from unified_profiler_torch.read.normalizer import KinetoNormalizer

NATIVE = "torch.profiler (native)"
STEPS = 200
"""Steps of 50 small layers, forward and backward: 422 500 events."""


def capture(steps: int) -> Any:
    """Record that many training steps with torch.profiler, its own table of events included."""
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(50)])
    batch = torch.randn(4, 32)
    profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profile.prepare_trace()
    profile.start_trace()
    for _ in range(steps):
        model(batch).sum().backward()
    profile.stop_trace()
    return profile


def save(profile: Any, path: Path) -> None:
    """Write the Kineto trace."""
    profile.profiler.kineto_results.save(str(path))


def read(path: Path) -> Trace:
    """Turn a Kineto trace into a Trace."""
    table = assemble([KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(path,)))])
    return Trace(table, TraceInfo(event_count=len(table), frameworks={"torch": ""}))


def tabulate(path: Path) -> Trace:
    """Turn a Kineto trace into a finished operator table."""
    from unified_profiler.analysis import op_table

    trace = read(path)
    str(op_table(trace))
    return trace


def against_torch(folder: Path) -> list[Figure]:
    """Measure the time to the table against torch's on the same capture, and the size on disk.

    The middle one of three processes counts: Kineto saves more slowly each time that it records in one process.
    """
    runs = [json.loads(_in_a_process("table_times", folder)) for _ in range(3)]
    run = sorted(runs, key=lambda run: run["theirs"] / run["ours"])[1]
    ratios = ", ".join(f"{run['theirs'] / run['ours']:.1f}" for run in runs)
    note = (
        f"{run['events']} events: torch {run['theirs']:.1f} s, ours {run['ours']:.2f} s of which Kineto's saving "
        f"{run['saving']:.2f} s; three processes: {ratios}"
    )
    return [
        Figure(
            name="torch's events and table / ours",
            value=run["theirs"] / run["ours"],
            unit="x",
            against=NATIVE,
            at_least=18,
            note=note,
        ),
        Figure(
            name="Kineto's JSON / our Parquet",
            value=run["json_bytes"] / run["parquet_bytes"],
            unit="x",
            against=NATIVE,
            at_least=40,
            note=_megabytes(run["parquet_bytes"]),
        ),
    ]


def table_times(folder: Path) -> str:
    """Record once, and measure both ways to the table."""
    path, parquet = folder / "trace.json", folder / "trace.parquet"
    profile = capture(STEPS)
    tabulate(_warm_up(folder))
    traces: list[Trace] = []
    saving = seconds(lambda: save(profile, path))
    ours = saving + seconds(lambda: traces.append(tabulate(path)))
    write_parquet(traces[0], parquet)
    found = {"theirs": seconds(lambda: profile.key_averages().table()), "ours": ours, "saving": saving}
    sizes = {"json_bytes": path.stat().st_size, "parquet_bytes": parquet.stat().st_size}
    return json.dumps({**found, **sizes, "events": len(traces[0])})


def memory(path: Path) -> Figure:
    """Measure the memory that normalizing takes beyond what its imports take."""
    grown = int(_in_a_process("memory_growth", path))
    ratio = grown / path.stat().st_size
    return Figure(name="peak memory of normalizing / JSON", value=ratio, unit="x", at_most=4, note=_megabytes(grown))


def growth(folder: Path) -> list[Figure]:
    """Measure the time per event at several sizes, each against that of half its size."""
    figures: list[Figure] = []
    before: float | None = None
    for steps in (STEPS // 8, STEPS // 4, STEPS // 2, STEPS):
        path = folder / f"{steps}.json"
        save(capture(steps), path)
        events = len(tabulate(path))
        cost = min(seconds(lambda: tabulate(path)) for _ in range(2)) / events  # noqa: B023
        note = f"{cost * 1e6:.2f} us an event"
        ratio = cost / (before or cost)
        figures.append(Figure(name=f"cost of an event: {events} / half", value=ratio, unit="x", at_most=1.5, note=note))
        before = cost
    return figures


def measure() -> list[Figure]:
    """Run everything."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        figures = against_torch(folder)
        figures.append(memory(folder / "trace.json"))
        return figures + growth(folder)


def _warm_up(folder: Path) -> Path:
    path = folder / "small.json"
    save(capture(1), path)
    return path


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def peak_memory() -> int:
    """Return the peak memory of this process; getrusage would count that of the one which started it, too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def memory_growth(path: Path) -> str:
    """Normalize a file and return by how much the peak memory of this process has grown."""
    before = peak_memory()
    KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(path,)))
    return str(peak_memory() - before)


def _in_a_process(task: str, path: Path) -> str:
    command = [sys.executable, "-m", "benchmarks.normalizing", task, str(path)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    tasks = {"table_times": table_times, "memory_growth": memory_growth}
    print(tasks[sys.argv[1]](Path(sys.argv[2])))
