from __future__ import annotations

import configparser
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import unified_profiler

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert result.returncode == 0, result.stdout + result.stderr
    (file,) = folder.glob("*.whl")
    return zipfile.Path(file)


@pytest.fixture(scope="module")
def names(wheel: zipfile.Path) -> set[str]:
    return set(wheel.root.namelist())


def test_the_wheel_holds_every_source_of_both_import_roots(names: set[str]) -> None:
    roots = (ROOT, ROOT / "backends")
    folders = [ROOT / "unified_profiler", *(ROOT / "backends").glob("unified_profiler_*")]
    expected = {
        file.relative_to(ROOT / "backends" if folder.parent == roots[1] else ROOT).as_posix()
        for folder in folders
        for file in folder.rglob("*")
        if file.suffix in {".py", ".sql", ".toml"} or file.name == "py.typed"
    }
    assert {"unified_profiler/py.typed", "unified_profiler_torch/__init__.py"} <= expected
    assert any(name.endswith(".sql") for name in expected)
    assert expected <= names


def test_the_wheel_holds_nothing_else(names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    backends = {folder.name for folder in (ROOT / "backends").glob("unified_profiler_*")}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"unified_profiler", *backends}


def test_the_wheel_has_license_and_command(wheel: zipfile.Path, names: set[str]) -> None:
    assert any(name.endswith("LICENSE") for name in names)
    (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
    parser = configparser.ConfigParser()
    parser.read_string(wheel.joinpath(entry_points).read_text())
    assert parser["console_scripts"]["unified-profiler"] == "unified_profiler.cli.app:main"


@pytest.mark.skipif("UNIFIED_PROFILER_TEST_INSTALLED" not in os.environ, reason="only where the wheel is installed")
def test_the_package_under_test_is_the_installed_one() -> None:
    assert ROOT / "unified_profiler" not in Path(str(unified_profiler.__file__)).parents
    assert "site-packages" in str(unified_profiler.__file__)
