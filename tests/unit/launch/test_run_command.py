"""The command `run`: what it refuses before any script is started, and what it does when switched off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unified_profiler.cli.app import app
from unified_profiler.launch import launcher
from unified_profiler.launch.launcher import Outcome
from unified_profiler.model.records import Manifest, Overhead
from unified_profiler.model.run import Run
from unified_profiler.testing.builders import TraceBuilder


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
    assert not list(script.parent.glob("profile/*"))


@pytest.mark.parametrize(
    ("arguments", "option"),
    [(("--row-limit", "3"), "--row-limit"), (("--epochs", "1", "--active=3"), "--active"), (("--epochs", "x"), None)],
)
def test_options_of_run_after_the_script_are_named_if_the_script_refuses_them(
    script: Path, arguments: tuple[str, ...], option: str | None
) -> None:
    script.write_text(
        "import argparse; p = argparse.ArgumentParser(); p.add_argument('--epochs', type=int); p.parse_args()"
    )
    done = _run("script.py", *arguments)
    assert done.returncode == 2
    assert (f"unified-profiler: {option} is an option of run" in done.stderr) == (option is not None)


TRAINING = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def test_the_last_lines_name_the_recorded_steps_and_how_many_were_planned(script: Path) -> None:
    script.write_text(TRAINING)
    done = _run("--no-table", "script.py")
    assert "unified-profiler: run written to profile/" in done.stderr
    assert "unified-profiler report profile/" in done.stderr
    assert "unified-profiler: steps 2-4 of 6 were recorded; each step was ended by optimizer; start-up" in done.stderr
    assert "were to be recorded" not in done.stderr
    fewer = _run("--no-table", "--wait", "4", "--verbose", "script.py")
    assert "optimizer ended the steps from the first one on" in fewer.stderr
    assert "optimizer ended the steps" not in done.stderr
    assert "step 5 of 6 was recorded; each step was ended by optimizer; 3 were to be recorded; start" in fewer.stderr


def test_at_level_1_no_table_is_printed_and_the_missing_operators_are_no_mistake(script: Path) -> None:
    script.write_text(TRAINING)
    done = _run("--level", "1", "script.py")
    assert done.stdout == ""
    assert "unified-profiler: level 1 records steps and regions, no operators\n" in done.stderr
    assert "hint" not in done.stderr


def _lines_of(outcome: Outcome, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    """Return what `run` prints on stderr at the end of a launch."""
    monkeypatch.setattr(launcher, "launch", lambda *_: outcome)
    CliRunner().invoke(app, ["run", "script.py"], env={"LANG": "C"})
    return capfd.readouterr().err


def manifest(overhead: Overhead) -> Manifest:
    return Manifest(
        profiler_version="1",
        run="run",
        rank=0,
        host="h",
        pid=1,
        python="3",
        platform="p",
        started_ns=0,
        overhead=overhead,
    )


def test_a_lack_of_cpu_time_is_noted_below_the_table(
    script: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    end = 10_000_000_000
    builder = TraceBuilder(start_ns=0, end_ns=end, first_step=0, last_step=0).step(0, 0, end).op("aten::mm", 0, end)
    for name, value in (("process CPU %", 4.0), ("process CPU wait %", 96.0)):
        builder.op(name, 0, 0, value=value, kind="counter", layer="hardware", framework=None)
    run = Run(traces=(builder.build(),), manifests={0: manifest(Overhead())})
    shown = _lines_of(Outcome(exit_code=0, run=run), monkeypatch, capfd)
    assert "unified-profiler: Rank 0 was starved of CPU time: while recording, it got 4.0% of a core" in shown


def test_steps_that_were_still_becoming_faster_are_noted_with_the_wait_that_helps(
    script: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    overhead = Overhead(unclear="falling", steady_step=18)
    run = Run(traces=(TraceBuilder().op("aten::mm", 0, 10).build(),), manifests={0: manifest(overhead)})
    shown = _lines_of(Outcome(exit_code=0, run=run), monkeypatch, capfd)
    assert "Record later ones: run --wait 20, or schedule(wait=20)." in shown


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
