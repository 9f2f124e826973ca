"""Notebooks with PyTorch, executed by a real Jupyter kernel, and IPython in a terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

LONGEST = 30_000
"""Number of characters that any output but a report may have, in any format."""

MARKS = {"text/html": "<tr>", "text/markdown": "\n| ", "text/plain": "<Profiler, not running: 30 steps, 1 trace>"}
"""A part of every table in a format, and the line that a Profiler is."""

MODEL = """
import torch
import unified_profiler as up
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
def train(steps, step=lambda: None):
    for _ in range(steps):
        model(torch.randn(8, 16)).sum().backward()
        step()
"""
Execute = Callable[..., list[list[Any]]]


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Execute:
    """Execute cells in a kernel of this Python, and return the outputs of each."""
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    (tmp_path / "notebooks").mkdir()

    def run(*cells: str) -> list[list[Any]]:
        notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
        resources = {"metadata": {"path": str(tmp_path / "notebooks")}}
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
        return [cell.outputs for cell in notebook.cells]

    return run


def data_of(outputs: list[Any]) -> list[dict[str, str]]:
    """Return what is displayed, by format; nothing may be printed, and nothing may fail."""
    assert [output.output_type for output in outputs if output.output_type in {"stream", "error"}] == []
    return [output.data for output in outputs]


def test_a_cell_shows_its_table_its_report_and_its_value(execute: Execute) -> None:
    *_, outputs = execute("%load_ext unified_profiler", MODEL, "%%profile --row-limit 5\ntrain(3)\nmodel[0].bias.shape")
    table, report, value = data_of(outputs)
    assert "aten::" in table["text/plain"]
    assert table["text/html"].count("<tr>") == 6
    assert report["text/html"].startswith("<iframe ")
    assert len(report["text/plain"]) < 100
    assert value["text/plain"] == "torch.Size([32])"
    assert outputs[-1].execution_count == 3


def test_objects_are_shown_as_tables_of_moderate_size(execute: Execute) -> None:
    objects = {
        "up.op_table(prof.run)": "text/html",
        "up.step_breakdown(prof.run)": "text/html",
        "up.critical_path(prof.run)": "text/html",
        "prof.traces[0]": "text/html",
        "prof.run": "text/html",
        "up.diff(prof.run, prof.run)": "text/html",
        "up.summarize(prof.run)": "text/markdown",
        "up.gate(prof.run, prof.run)": "text/markdown",
        "prof": "text/plain",
    }
    recorded = "with up.Profiler(record_shapes=True, with_modules=True) as prof:\n    train(30, prof.step)"
    for (code, form), outputs in zip(objects.items(), execute(MODEL, recorded, *objects)[2:], strict=True):
        (data,) = data_of(outputs)
        assert max(map(len, data.values())) < LONGEST, code
        assert data["text/plain"], code
        assert MARKS[form] in data[form], code


def test_options_reach_the_recording(execute: Execute) -> None:
    *_, tables, rows = execute(
        "%load_ext unified_profiler",
        MODEL,
        "%%profile --record-shapes --by shapes --with-modules --api --no-report -r prof\ntrain(2, prof.step)",
        "[row.module for row in up.op_table(prof.run, by='module')]",
    )
    operators, calls = data_of(tables)
    assert "Input shapes" in operators["text/plain"]
    assert "torch.randn" in calls["text/plain"]
    assert "0" in data_of(rows)[0]["text/plain"]


def test_a_notebook_stops_at_a_profiled_cell_that_raises(execute: Execute) -> None:
    with pytest.raises(CellExecutionError, match="division by zero"):
        execute("%load_ext unified_profiler", MODEL, "%%profile\ntrain(1)\n1 / 0", "raise AssertionError")


def test_code_that_awaits_is_profiled_with_a_profiler_of_its_own(execute: Execute) -> None:
    *_, refused, outputs = execute(
        "%load_ext unified_profiler",
        MODEL,
        "from contextlib import suppress\n"
        "with suppress(Exception):\n"
        "    get_ipython().run_cell_magic('profile', '', 'await train(1)')",
        "import asyncio\n"
        "with up.Profiler() as prof:\n"
        "    await asyncio.sleep(0)\n"
        "    train(1, prof.step)\n"
        "up.op_table(prof.run)",
    )
    assert refused == []
    assert "aten::" in data_of(outputs)[0]["text/plain"]


def test_an_ipython_that_ends_prints_nothing(tmp_path: Path) -> None:
    """DuckDB reports connections that are open at the end, and a magic keeps its module until after that."""
    code = "%load_ext unified_profiler\nimport torch\n%profile torch.ones(3) + 1\n"
    ipython = [sys.executable, "-m", "IPython", "--no-banner", "--simple-prompt", f"--ipython-dir={tmp_path}"]
    result = subprocess.run(ipython, input=code, capture_output=True, text=True)
    assert "aten::add" in result.stdout
    assert result.stderr == ""
