"""The demonstration that the README names runs to its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demonstration_runs(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), "torch"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    output = tmp_path / "demo-profile" / "torch"
    assert {"run", "report.html", "trace.json.gz"} <= {path.name for path in output.iterdir()}
