from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.delivery.deferral import Deferral
from unified_profiler.delivery.finishing import EndedCycle
from unified_profiler.delivery.pending import store
from unified_profiler.model.trace import Trace

READ = """
import sys
import unified_profiler as up
assert len(up.read(sys.argv[1]).traces) == 1
assert sys.argv[2] not in sys.modules
"""


@pytest.fixture
def both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Trace, Trace]]:
    """Records steps once, and delivers the same captures at once, and from what a killed process would have left."""

    def leave_a_copy(self: Deferral, cycle: EndedCycle) -> None:
        store(cycle, self._pending.folder_of(cycle.window.cycle))
        shutil.copytree(tmp_path / "delivered", tmp_path / "left")
        msg = "there is no room; the cycle is delivered at once"
        raise OSError(msg)

    def run(step: Callable[[], object], **options: Any) -> tuple[Trace, Trace]:
        monkeypatch.setattr(Deferral, "put", leave_a_copy)
        with up.Profiler(output_dir=tmp_path / "delivered", deliver="deferred", **options) as prof:
            for _ in range(2):
                with prof.region("work"):
                    step()
                prof.step()
        assert [failure.action for failure in prof.failures] == ["set aside"]
        (delivered,) = prof.traces
        subprocess.run([sys.executable, "-c", READ, str(tmp_path / "left"), options["backend"]], check=True)
        (left,) = up.read(tmp_path / "left").traces
        assert left.file is not None
        return delivered, left

    return run
