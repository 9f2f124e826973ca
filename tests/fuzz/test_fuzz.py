"""A few cases of every format, which `make fuzz` reads many more of; and that the fuzzer would notice."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.errors import TraceFormatError

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
DIGEST = """
from hashlib import sha256
from tests.fuzz.cases import make
from tests.fuzz.seeds import FORMATS
print(sha256(repr([make(name, number) for name in FORMATS for number in range(30)]).encode()).hexdigest())
"""


def test_mutated_files_give_traces_or_errors_that_name_them() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--count", "150", "--workers", "2"]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_number_gives_the_same_case_in_every_process() -> None:
    digests = {
        subprocess.check_output([sys.executable, "-c", DIGEST], cwd=ROOT, env=ENVIRONMENT | {"PYTHONHASHSEED": seed})
        for seed in "12"
    }
    assert len(digests) == 1


# --- what the fuzzer notices ----------------------------------------------------------------------------------------


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the fuzzer, which is not installed."""
    monkeypatch.syspath_prepend(ROOT)
    return lambda name: importlib.import_module(f"tests.fuzz.{name}")


def fail(path: Path) -> None:
    raise KeyError(path)


def fail_for_lack_of_memory(path: Path) -> None:
    msg = f"{path} is too large"
    raise TraceFormatError(msg) from MemoryError()


def fail_without_a_name(path: Path) -> None:
    msg = "the file is damaged"
    raise TraceFormatError(msg)


def warn(path: Path) -> up.Run:
    warnings.warn("overflow", RuntimeWarning, stacklevel=1)
    return up.Run(traces=())


def write_outside(path: Path) -> up.Run:
    (path.parent.parent / "outside" / "secret").write_text("changed")
    return up.Run(traces=())


def write_beside(path: Path) -> up.Run:
    (path.parent.parent.parent / "left").touch()
    return up.Run(traces=())


def change_cycle(path: Path) -> up.Run:
    (path / "rank-00000" / "cycle-00000.parquet").unlink()
    return up.Run(traces=())


@pytest.mark.parametrize(
    ("read", "finding"),
    [
        (fail, "untyped error"),
        (fail_for_lack_of_memory, "memory"),
        (fail_without_a_name, "error that names no file"),
        (warn, "warning"),
        (write_outside, "changed what lies outside"),
        (write_beside, "changed what lies outside"),
    ],
)
def test_a_reader_that_misbehaves_is_a_finding(
    read: Callable[[Path], Any], finding: str, fuzz: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "read", read)
    assert fuzz("outcomes").Room(tmp_path / "room").judge("kineto", 41).kind == finding


def test_a_reader_that_changes_a_finished_cycle_is_a_finding(
    fuzz: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "read", change_cycle)
    assert fuzz("outcomes").Room(tmp_path / "room").judge("run", 0).kind == "changed a finished cycle"


def test_an_error_for_a_seed_is_a_finding(fuzz: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up, "read", fail_without_a_name)
    assert fuzz("outcomes").Room(tmp_path / "room").judge("kineto", 0).kind == "typed error for a seed"


def test_the_death_of_a_process_is_a_finding_and_not_the_end() -> None:
    code = (
        "from tests.fuzz.workers import judged\n"
        "tasks = [('no such format', 1), ('kineto', 0), ('no such format', 2)]\n"
        "print(sorted(outcome.kind for _, outcome in judged(tasks, workers=1)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.stdout.strip() == "['death', 'death', 'ok']", done.stderr
