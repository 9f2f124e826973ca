"""Every import contract of pyproject.toml fails when an import that it forbids is added."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLANTED = {
    "unified_profiler/model/trace.py": ["unified_profiler.cli"],
    "unified_profiler/analysis/op_table.py": ["torch"],
    "backends/unified_profiler_torch/read/kineto.py": [
        "unified_profiler.config",
        "unified_profiler_torch.record.session",
    ],
    "backends/unified_profiler_mindspore/read/normalizer.py": ["unified_profiler_torch"],
    "backends/unified_profiler_tensorflow/canonical/flops.py": ["tensorflow"],
}


def test_every_contract_notices_a_forbidden_import(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("unified_profiler", "backends", "tests/contracts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, modules in PLANTED.items():
        with (tmp_path / name).open("a") as file:
            file.writelines(f"\nimport {module}\n" for module in modules)
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(tmp_path / "backends")])}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    contracts = re.findall(r'^name = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    broken = re.findall(r"^(.*) BROKEN$", result.stdout, re.MULTILINE)
    assert result.returncode == 1, result.stdout + result.stderr
    assert sorted(broken) == sorted(name for name in contracts if name != "unified-profiler")
