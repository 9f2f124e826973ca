"""Recording writes nothing to stderr, at TensorFlow's own level of messages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import tensorflow as tf
import unified_profiler as up

tf.constant(1.0) + 1  # TensorFlow describes the processor once
print("recording", file=__import__("sys").stderr, flush=True)
with up.Profiler(schedule=up.schedule(wait=1, warmup=1, active=1, repeat=2), backend="tensorflow") as prof:
    for _ in range(6):
        tf.reduce_sum(tf.ones(3)).numpy()
        prof.step()
assert len(prof.traces) == 2
"""


def test_recording_prints_nothing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.partition("recording\n")[2] == ""
