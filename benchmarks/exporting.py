"""Writing a large trace for other programs: Chrome JSON against torch's own, and the models layout; time and memory.

Each file is written by a process of its own, which has read the trace before. Time is the CPU time of that process
while it writes; memory is how far its peak rises meanwhile above what it held after reading.
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

import unified_profiler as up
from benchmarks.figures import Figure
from benchmarks.normalizing import NATIVE, STEPS, capture, read
from benchmarks.reporting import record
from unified_profiler.model.storage import write_parquet
from unified_profiler.model.trace import Trace

ROUNDS = 3


def measure() -> list[Figure]:
    """Record, and write in each format."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_chrome(Path(folder)), *_models(Path(folder))]


def _chrome(folder: Path) -> list[Figure]:
    runs = [json.loads(_in_a_process("against_torch", folder, folder)) for _ in range(ROUNDS)]
    ratio = statistics.median(run["theirs"] / run["ours"] for run in runs)
    spent = ", ".join(f"{run['theirs']:.2f} and {run['ours']:.2f} s" for run in runs)
    figures = [
        Figure(
            name="torch's export_chrome_trace / our .json",
            value=ratio,
            unit="x",
            against=NATIVE,
            at_least=0.8,
            note=f"CPU time of writing one capture; three processes: {spent}",
        )
    ]
    for suffix in (".json", ".json.gz"):
        figures += _costs(f"export {suffix}", "chrome", folder / "trace.parquet", folder / f"out{suffix}", seconds=1.5)
    return figures


def _models(folder: Path) -> list[Figure]:
    _in_a_process("record_steps", folder / "profile", folder)
    return _costs("models layout", "models", folder / "profile", folder / "models", seconds=2)


def _costs(name: str, task: str, source: Path, target: Path, *, seconds: float) -> list[Figure]:
    runs = [json.loads(_in_a_process(task, source, target)) for _ in range(ROUNDS)]
    spent, megabytes = (statistics.median(run[key] for run in runs) for key in ("seconds", "megabytes"))
    note = (
        f"{runs[0]['events']} events; {runs[0]['written']:.0f} MB in {statistics.median(r['wall'] for r in runs):.2f} s"
    )
    return [
        Figure(name=f"{name}: CPU time", value=spent, unit="s", at_most=seconds, note=note),
        Figure(name=f"{name}: memory beyond the trace", value=megabytes, unit="MB", at_most=300),
    ]


def against_torch(folder: Path, _: Path) -> str:
    """Record once, and let torch and us write it; ours is kept for the other figures."""
    profile = capture(STEPS)
    theirs = _cpu_seconds(lambda: profile.export_chrome_trace(str(folder / "theirs.json")))
    trace = read(folder / "theirs.json")
    write_parquet(trace, folder / "trace.parquet")
    up.write(Trace(trace.events.slice(0, 1), trace.info), folder / "first.json")  # imports what writing needs
    ours = _cpu_seconds(lambda: up.write(trace, folder / "ours.json"))
    return json.dumps({"theirs": theirs, "ours": ours})


def record_steps(folder: Path, _: Path) -> str:
    """Record a run with steps."""
    record(folder)
    return ""


def chrome(source: Path, target: Path) -> str:
    """Write Chrome JSON."""
    return _measured(source, target, lambda run: up.write(run, target))


def models(source: Path, target: Path) -> str:
    """Write the models layout."""
    return _measured(source, target, lambda run: up.write_models_layout(run, target))


def _measured(source: Path, target: Path, write: Callable[[up.Run], object]) -> str:
    run = up.read(source)
    events = sum(len(trace.events) for trace in run.traces)  # reads them
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew at what is held now
    held, start = _status("VmRSS"), time.perf_counter()
    spent = _cpu_seconds(lambda: write(run))
    wall, grown = time.perf_counter() - start, _status("VmHWM") - held
    files = [target] if target.is_file() else [file for file in target.rglob("*") if file.is_file()]
    written = sum(file.stat().st_size for file in files) / 1e6
    return json.dumps({"seconds": spent, "wall": wall, "megabytes": grown, "events": events, "written": written})


def _cpu_seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def _status(field: str) -> float:
    """Return an amount of memory of this process in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(f"{field}:")[1].split()[0]) * 1024 / 1e6


def _in_a_process(task: str, source: Path, target: Path) -> str:
    command = [sys.executable, "-m", "benchmarks.exporting", task, str(source), str(target)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    tasks = {"against_torch": against_torch, "record_steps": record_steps, "chrome": chrome, "models": models}
    print(tasks[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3])))
