"""Records the runs of the pictures by the commands that a reader would type, each when it is first needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TUTORIAL = ROOT / "docs" / "tutorials" / "first-trace.md"
_SCRIPT = re.compile(r"^```python title=\"(.+?)\"\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Runs:
    """The runs, in one directory."""

    def __init__(self, folder: Path) -> None:
        """Prepare to record into a directory."""
        self._folder = folder

    @cached_property
    def training(self) -> Path:
        """A training of torch, recorded without changing it."""
        folder = self._folder / "training"
        folder.mkdir()
        shutil.copy(EXAMPLES / "train_torch.py", folder / "train.py")
        options = ["--wait", "40", "--active", "14", "--record-shapes", "--with-modules"]
        script = ["train.py", "--", "--steps", "90", "--batch-size", "128"]
        _command("run", "--no-table", *options, *script, folder=folder)
        return folder / "profile"

    @cached_property
    def regions(self) -> Path:
        """A training with regions, recorded by the Profiler in its code."""
        folder = self._folder / "regions"
        folder.mkdir()
        _python(str(EXAMPLES / "quickstart_torch.py"), "regions", folder=folder)
        return folder / "regions"

    @cached_property
    def job(self) -> Path:
        """Four ranks, of which one becomes slow."""
        job = self._folder / "job"
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "4", "-m", "unified_profiler"]
        _python(
            *launcher, "run", "-o", str(job), "--active", "50", str(EXAMPLES / "train_ranks.py"), folder=self._folder
        )
        return job

    @cached_property
    def framework_diff(self) -> Path:
        """The page on one model in two frameworks."""
        for framework in ("torch", "tensorflow"):
            _python(str(EXAMPLES / "comparison" / "record.py"), framework, "cnn", framework, folder=self._folder)
        return self._diff("torch", "tensorflow")

    def tutorial(self, name: str) -> Path:
        """Return a run of the tutorial, `before` or `after`."""
        return self._tutorial[name]

    @cached_property
    def tutorial_diff(self) -> Path:
        """The page on the two runs of the tutorial."""
        return self._diff(*self._tutorial)

    @cached_property
    def _tutorial(self) -> dict[str, Path]:
        for script, text in _SCRIPT.findall(TUTORIAL.read_text(encoding="utf-8")):
            (self._folder / script).write_text(text, encoding="utf-8")
        runs = {"before": "train.py", "after": "train_sparse.py"}
        for name, script in runs.items():
            options = ["--no-table", "--active", "10", "--record-shapes"]
            _command("run", "-o", name, *options, script, folder=self._folder)
        return {name: self._folder / name for name in runs}

    def _diff(self, baseline: str, candidate: str) -> Path:
        page = self._folder / f"{candidate}-diff.html"
        _command("diff", baseline, candidate, "-o", str(page), folder=self._folder)
        return page


def _command(*arguments: str, folder: Path) -> None:
    _python("-m", "unified_profiler", *arguments, folder=folder)


def _python(*arguments: str, folder: Path) -> None:
    """Run a program with one thread for operators: several ones wait for each other if the machine is busy."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, check=True)  # noqa: S603  our own programs
