from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FRAMEWORKS = {"torch", "tensorflow", "mindspore", "keras"}
HEAVY = {"duckdb", "plotly", "typer", "rich", "pandas", "pyarrow", "numpy", "IPython"}


def loaded_after(code: str, cwd: Path) -> set[str]:
    """Run code in a fresh interpreter and return the top-level modules that it loaded."""
    code += "\nimport json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout.splitlines()[-1]))


def test_importing_the_package_loads_no_framework_and_nothing_heavy(tmp_path: Path) -> None:
    assert not loaded_after("import unified_profiler", tmp_path) & (FRAMEWORKS | HEAVY)


@pytest.mark.parametrize(
    "code",
    [
        "import unified_profiler as up; up.Profiler",
        "import unified_profiler as up; up.read, up.write, up.op_table, up.step_breakdown, up.query",
        "from unified_profiler import registry; registry.backends()",
        "import unified_profiler.testing, unified_profiler.launch",
    ],
)
def test_no_part_of_the_package_loads_a_framework(code: str, tmp_path: Path) -> None:
    assert not loaded_after(code, tmp_path) & FRAMEWORKS


def test_a_profiler_without_a_framework_in_the_process_loads_none(tmp_path: Path) -> None:
    code = "import unified_profiler as up\nwith up.Profiler() as profiler:\n    profiler.step()"
    assert not loaded_after(code, tmp_path) & FRAMEWORKS


def test_profiling_loads_neither_duckdb_nor_the_command_line(tmp_path: Path) -> None:
    code = "import unified_profiler as up\nwith up.Profiler(output_dir='profile') as profiler:\n    profiler.step()"
    assert not loaded_after(code, tmp_path) & {"duckdb", "typer", "rich"}


def test_reading_a_native_trace_does_not_need_its_framework(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    trace = next((pytestconfig.rootpath / "tests" / "golden" / "kineto").glob("*.json.gz"))
    code = f"import unified_profiler as up; assert len(up.read({str(trace)!r}).traces[0].events)"
    assert not loaded_after(code, tmp_path) & FRAMEWORKS
