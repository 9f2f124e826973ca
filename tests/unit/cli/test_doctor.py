from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from unified_profiler import registry
from unified_profiler.cli import doctor

Invoke = Callable[..., Result]


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = registry.Entry(
        "torch", "unified_profiler_torch:backend", "torch", 'pip install "unified-profiler[torch]"'
    )
    monkeypatch.setattr(registry, "known", lambda: (missing,))
    monkeypatch.setattr(doctor, "_framework_version", lambda module: None)


def test_doctor_tells_the_version_of_an_installed_framework(invoke: Invoke) -> None:
    result = invoke("doctor", "--json")
    assert result.exit_code == 0, result.stdout
    frameworks = {finding["backend"]: finding for finding in json.loads(result.stdout)["frameworks"]}
    assert frameworks["torch"]["version"] == importlib.metadata.version("torch")
    assert {"record_shapes", "profile_memory", "with_stack", "with_flops"} <= set(frameworks["torch"]["records"])


def test_doctor_prints_the_versions_of_the_libraries(invoke: Invoke) -> None:
    assert f"pyarrow {importlib.metadata.version('pyarrow')}" in " ".join(invoke("doctor").stdout.split())


@pytest.mark.usefixtures("nothing_installed")
def test_a_missing_framework_comes_with_the_command_that_installs_it(invoke: Invoke) -> None:
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "not installed" in result.stdout
    assert 'pip install "unified-profiler[torch]"' in result.stdout


def test_an_output_directory_that_is_a_file_is_a_problem(invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    result = invoke("doctor", "--output", file, "--json")
    assert result.exit_code == 1
    assert any(str(file) in problem for problem in json.loads(result.stdout)["problems"])


@pytest.mark.usefixtures("nothing_installed")
def test_commands_to_copy_are_whole_in_a_narrow_terminal(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = invoke("doctor").stdout.splitlines()
    assert 'To record torch: pip install "unified-profiler[torch]"' in lines


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a directory in which nobody can write")
def test_a_directory_in_which_nothing_can_be_written_is_a_problem(invoke: Invoke) -> None:
    result = invoke("doctor", "-o", "/proc/profile", "--json")
    assert result.exit_code == 1
    assert "`output_dir` /proc/profile cannot be written" in json.loads(result.stdout)["problems"][0]


def test_a_level_of_zero_is_a_problem(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIFIED_PROFILER_LEVEL", "0")
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "profiling is disabled" in result.stdout


def test_wrong_options_in_the_environment_are_a_problem(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIFIED_PROFILER_OPTIONS", '{"record_shape": true}')
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "record_shapes" in result.stdout


def test_switched_off_by_its_options_is_a_problem(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIFIED_PROFILER_OPTIONS", '{"start": false}')
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "`start` is false" in result.stdout


@pytest.mark.parametrize(
    ("mindspore", "numpy", "noted"),
    [
        ("2.10.0", "2.4.6", True),
        ("2.9.0rc1", "2.0.0", True),
        ("2.10.0", "1.26.4", False),
        ("2.11.0", "2.4.6", False),
        (None, "2.4.6", False),
    ],
)
def test_a_numpy_that_mindspore_is_not_compiled_for_is_noted(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, mindspore: str | None, numpy: str, noted: bool
) -> None:
    versions = {"mindspore": mindspore, "numpy": numpy}
    monkeypatch.setattr(doctor, "_version", versions.get)
    notes = json.loads(invoke("doctor", "--json").stdout)["notes"]
    assert bool(notes) == noted
    assert all(f"MindSpore {mindspore}" in note and "pip install 'numpy<2'" in note for note in notes)
    assert ("Note: MindSpore" in invoke("doctor").stdout) == noted


def test_a_backend_that_cannot_be_loaded_is_a_problem(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = registry.Entry("broken", "no_such_module:backend", None, "pip install broken")
    monkeypatch.setattr(registry, "known", lambda: (broken,))
    result = invoke("doctor", "--json")
    assert result.exit_code == 1
    assert any("no_such_module" in problem for problem in json.loads(result.stdout)["problems"])


def test_doctor_imports_no_framework(tmp_path: Path) -> None:
    code = (
        "import sys; from unified_profiler.cli.app import app\n"
        "app(['doctor'], standalone_mode=False)\n"
        "print(sorted({'torch', 'tensorflow', 'mindspore'} & sys.modules.keys()))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "[]"
