"""The command `run`: what it refuses before any script is started, and what it does when switched off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unified_profiler.cli.app import app


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "script.py"
    path.write_text("open('started', 'w').close()")
    return path


REFUSED = {
    "no script": ([], "Give a script or -m MODULE"),
    "a script that is not there": (["nowhere.py"], "There is no script 'nowhere.py'"),
    "a misspelt option": (["--wiat", "1", "script.py"], "Did you mean '--wait'"),
    "an unknown backend": (["--backend", "torhc", "script.py"], "Did you mean 'torch'"),
    "a wrong sort key": (["--sort-by", "self_cpu_nss", "script.py"], "self_cpu_ns"),
    "a schedule without active steps": (["--active", "0", "script.py"], "--active"),
    "a file for the output": (["-o", "script.py", "script.py"], "script.py"),
    "an unknown signal": (["--step-signal", "optimiser", "script.py"], "Did you mean 'optimizer'"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_mistake_is_told_before_the_script_starts(script: Path, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["run", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert message in result.output
    assert not script.with_name("started").exists()


SWITCHED_OFF: dict[str, tuple[list[str], dict[str, str]]] = {
    "option": (["--level", "0"], {}),
    "variable": ([], {"UNIFIED_PROFILER_LEVEL": "0"}),
    "start": ([], {"UNIFIED_PROFILER_OPTIONS": '{"start": false}'}),
}


@pytest.mark.parametrize(("switch", "environ"), SWITCHED_OFF.values(), ids=SWITCHED_OFF.keys())
def test_switched_off_the_script_runs_and_nothing_else(
    script: Path, switch: list[str], environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["x"])
    monkeypatch.setattr("sys.path", ["x"])
    monkeypatch.setitem(__import__("sys").modules, "__main__", __import__("sys").modules["__main__"])
    result = CliRunner().invoke(app, ["run", *switch, "script.py"], env=environ)
    assert (result.exit_code, result.output) == (0, "")
    assert script.with_name("started").exists()
    assert not script.with_name("profile").exists()


def test_a_script_in_the_place_of_a_command_is_run(script: Path) -> None:
    script.write_text("import sys\nprint(sys.argv)\nopen('started', 'w').close()")
    options = '{"start": true, "output_path": "here", "schedule": {"wait": 0, "warmup": 0, "active": 1}}'
    done = subprocess.run(
        [sys.executable, "-m", "unified_profiler", "script.py", "--epochs", "1"],
        env={**os.environ, "UNIFIED_PROFILER_OPTIONS": options},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['script.py', '--epochs', '1']\n")
    assert script.with_name("here").is_dir()
    assert not script.with_name("profile").exists()


def test_a_script_in_the_place_of_a_command_that_is_not_there_is_told(script: Path) -> None:
    result = CliRunner().invoke(app, ["nowhere.py"])
    assert result.exit_code == 2
    assert "There is no script 'nowhere.py'" in result.output


def _run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unified_profiler", "run", *arguments]
    return subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("before", ["", "import torch\n"])
def test_of_a_script_that_fails_before_any_operator_only_the_traceback_is_shown(script: Path, before: str) -> None:
    script.write_text(f"{before}raise ValueError('of the script')")
    done = _run("script.py")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("ValueError: of the script\n")


TRAINING = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("rank", "is_shown"), [("0", True), ("1", False)])
def test_one_rank_opens_the_report_and_names_the_next_command(script: Path, rank: str, is_shown: bool) -> None:
    script.write_text(TRAINING)
    browser = script.with_name("browser.sh")
    browser.write_text('#!/bin/sh\necho "$1" > opened\n')
    browser.chmod(0o755)
    done = _run("--open", "--no-table", "script.py", BROWSER=str(browser), RANK=rank, WORLD_SIZE="2")
    assert done.returncode == 0, done.stderr
    assert ("see more with: unified-profiler report " in done.stderr) == is_shown
    reports = list(script.parent.glob("profile/*/report.html"))
    assert len(reports) == is_shown
    opened = script.with_name("opened")
    assert [opened.read_text().strip()] == [reports[0].as_uri()] if is_shown else not opened.exists()
