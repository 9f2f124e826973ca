"""What `unified-profiler run` costs beyond the bare script: CPU time of whole processes, bare and profiled in turn."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, interleaved

ROUNDS = 5
TRAINING = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(20):
    loss = model(torch.randn(32, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SCRIPTS = {
    "a torch training of 20 steps": TRAINING,
    "a script that ends after import torch": "import torch\nraise SystemExit(1)\n",
    "a script that ends after import tensorflow": "import tensorflow\nraise SystemExit(1)\n",
    "a script that ends after import mindspore": "import mindspore\nraise SystemExit(1)\n",
}


def measure() -> list[Figure]:
    """Measure the difference of CPU times for each script, as the median of several rounds."""
    return [_figure(name, text) for name, text in SCRIPTS.items()]


def _figure(name: str, text: str) -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "script.py").write_text(text)
        bare, profiled = (sys.executable, "script.py"), (sys.executable, "-m", "unified_profiler", "run", "script.py")
        _cpu_seconds(profiled, folder)  # the first one compiles modules and fills caches
        alone, under = interleaved(
            lambda: _cpu_seconds(bare, folder), lambda: _cpu_seconds(profiled, folder), rounds=ROUNDS
        )
    note = f"{under:.2f} s, bare {alone:.2f} s of CPU time"
    return Figure(name=f"run: CPU time beyond {name}", value=under - alone, unit="s", at_most=1, note=note)


def _cpu_seconds(command: Sequence[str], folder: str) -> float:
    """Return the CPU time of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run(
        command, cwd=folder, env=environment, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
