"""The command `run`: what it refuses before any script is started, and what it does when switched off."""

from __future__ import annotations

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
    "no script": ([], "A script or -m MODULE is needed"),
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


@pytest.mark.parametrize("switch", [["--level", "0"], []], ids=["option", "variable"])
def test_level_0_runs_the_script_and_nothing_else(
    script: Path, switch: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["x"])
    monkeypatch.setattr("sys.path", ["x"])
    monkeypatch.setitem(__import__("sys").modules, "__main__", __import__("sys").modules["__main__"])
    result = CliRunner().invoke(
        app, ["run", *switch, "script.py"], env={} if switch else {"UNIFIED_PROFILER_LEVEL": "0"}
    )
    assert (result.exit_code, result.output) == (0, "")
    assert script.with_name("started").exists()
    assert not script.with_name("profile").exists()
