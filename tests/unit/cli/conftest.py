from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from unified_profiler.cli.app import app
from unified_profiler.model.storage import write_parquet
from unified_profiler.testing.builders import TraceBuilder

Invoke = Callable[..., Result]


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("UNIFIED_PROFILER_LEVEL", raising=False)

    def call(*arguments: str | Path) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run of two ranks with one step each; the second rank is twice as slow."""
    run = tmp_path / "profile" / "run"
    for rank in (0, 1):
        builder = TraceBuilder(rank=rank, world_size=2, first_step=0, last_step=0)
        slow = rank + 1
        builder.step(0, 0, 1000 * slow)
        builder.op("aten::linear", 0, 600 * slow).op("aten::addmm", 100, 400 * slow)
        builder.op("aten::relu", 700 * slow, 200 * slow)
        folder = run / f"rank-{rank:05d}"
        folder.mkdir(parents=True)
        write_parquet(builder.build(), folder / "cycle-00000.parquet")
    return run
