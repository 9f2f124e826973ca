from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import unified_profiler as up
from unified_profiler import errors
from unified_profiler.testing.builders import TraceBuilder

Invoke = Callable[..., Result]

COMMANDS = ("run", "table", "steps", "export", "query", "view", "doctor")


def test_version_is_that_of_the_installed_package(invoke: Invoke) -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout.strip() == f"unified-profiler {importlib.metadata.version('unified-profiler')}"


def test_help_names_every_command(invoke: Invoke) -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert all(command in result.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_examples(invoke: Invoke, command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"unified-profiler {command}" in result.stdout


def test_an_error_of_ours_is_one_message_on_stderr(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("table", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert "does not exist" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_error_names_the_option_that_was_given(invoke: Invoke, tmp_path: Path) -> None:
    up.write(TraceBuilder().op("a", 0, 1).build(), tmp_path / "trace.parquet")
    result = invoke("table", tmp_path / "trace.parquet", "--sort-by", "nmae")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: `--sort-by` cannot be 'nmae'. Did you mean 'name'? It must be one of ")


def test_debug_lets_the_error_through_with_its_traceback(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("--debug", "table", tmp_path / "nowhere")
    assert isinstance(result.exception, errors.TraceFormatError)


def test_an_unknown_command_is_refused(invoke: Invoke) -> None:
    result = invoke("profile")
    assert result.exit_code == 2
    assert "profile" in result.stderr


def test_the_module_runs_as_the_command_does(tmp_path: Path) -> None:
    result = subprocess.run([sys.executable, "-m", "unified_profiler", "--version"], capture_output=True, cwd=tmp_path)
    assert result.returncode == 0
    assert result.stdout.startswith(b"unified-profiler ")


def test_help_loads_neither_arrow_nor_duckdb_nor_a_framework(tmp_path: Path) -> None:
    code = (
        "import sys; from unified_profiler.cli.app import app\n"
        "app(['--help'], standalone_mode=False)\n"
        "print([m for m in ('pyarrow', 'duckdb', 'numpy', 'torch') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table", "--group-by", "op"), "There is no option '--group-by'. Did you mean '--by'?"),
        (("table", "--top", "5"), "There is no option '--top'. Did you mean '--row-limit'?"),
        (("table", "--sort", "name"), "There is no option '--sort'. Did you mean '--sort-by'?"),
        (("run", "--activ", "3", "train.py"), "There is no option '--activ'. Did you mean '--active'?"),
        (("run", "--top", "3", "train.py"), "There is no option '--top'. Did you mean '--row-limit'?"),
        (("doctor", "--top", "3"), "There is no option '--top'."),
    ],
)
def test_an_unknown_option_comes_with_the_one_that_was_meant(
    invoke: Invoke, arguments: tuple[str, ...], message: str
) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: {message}"


@pytest.mark.parametrize(
    ("option", "value"), [("--active", "three"), ("--opening-limit", "soon"), ("--active", "0"), ("--level", "3")]
)
def test_a_wrong_value_is_told_in_plain_words(invoke: Invoke, option: str, value: str) -> None:
    result = invoke("run", option, value, "train.py")
    assert result.exit_code == 2
    assert f"'{option}'" in result.stderr
    assert "Input should" not in result.stderr


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("table --by ", "module"),
        ("table --sort-by self_", "self_cpu_ns"),
        ("run --sort-by cpu_time", "cpu_time_total"),
        ("table --format ", "csv"),
        ("diff --by ori", "origin"),
    ],
)
def test_a_shell_completes_values(words: str, value: str) -> None:
    line = f"unified-profiler {words}"
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    environ = {**os.environ, **variables, "_UNIFIED_PROFILER_COMPLETE": "complete_bash"}
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv[0] = 'unified-profiler'; from unified_profiler.cli.app import main; main()",
    ]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert value in done.stdout.split()
