"""What `import unified_profiler` costs, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.figures import Figure

_HEAVY = ("torch", "tensorflow", "mindspore", "duckdb", "plotly", "typer")
_CODE = f"""
import sys, time
start = time.perf_counter()
import unified_profiler
spent = time.perf_counter() - start
loaded = [name for name in {_HEAVY} if name in sys.modules]
start = time.perf_counter()
unified_profiler.Profiler
print(spent, time.perf_counter() - start, len(loaded))
"""


def measure() -> list[Figure]:
    """Measure import times as the best of five processes."""
    runs = [[float(word) for word in _run().split()] for _ in range(5)]
    return [
        Figure(name="import unified_profiler", value=min(run[0] for run in runs), unit="s", at_most=0.3),
        Figure(name="heavy libraries it loads", value=max(run[2] for run in runs), unit="", at_most=0),
        Figure(
            name="first use of up.Profiler", value=min(run[1] for run in runs), unit="s", note="numpy, Arrow, pydantic"
        ),
    ]


def _run() -> str:
    return subprocess.run([sys.executable, "-c", _CODE], check=True, capture_output=True, text=True).stdout
