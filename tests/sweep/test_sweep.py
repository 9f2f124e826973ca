"""A few cases of the sweep; `make sweep` runs 200."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import unified_profiler
from tests.sweep.processes import Training

ROOT = Path(__file__).parents[2]
CASES = ("0", "2", "3", "5", "9", "13")
"""Of seed 3: both deliveries and each signal with torch, one case of TensorFlow and one of MindSpore."""


@pytest.mark.timeout(900)
def test_trainings_that_get_a_signal_lose_nothing_that_was_finished() -> None:
    command = [sys.executable, "-m", "tests.sweep", "--seed", "3", "--only", *CASES]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout


def test_only_frames_of_the_profiler_count_as_its_own(tmp_path: Path) -> None:
    own, log = Path(unified_profiler.__file__).parent / "profiler.py", tmp_path / "training.log"
    log.write_text(
        f'Traceback:\n  File "{own}", line 3, in step\n  File "{ROOT}/tests/sweep/training_program.py", line 9\n'
    )
    assert Training(progress=(), log=log).profiler_frames == [f'  File "{own}", line 3, in step']
