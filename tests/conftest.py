from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    import unified_profiler as up

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # else the processor decides which kernels TensorFlow takes
os.environ.setdefault("OMP_NUM_THREADS", "1")  # else threads spin while another program has the core of one of them

# How long an example takes says nothing on a machine that does other things as well.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A shell starts background jobs with SIGINT ignored, which programs under test would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TICK_NS = 1000


@pytest.fixture(scope="session", autouse=True)
def _temporary_files_of_this_run_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Faults leave native files behind on purpose: let them, and what killed processes leave, go with the test run."""
    folder = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", os.fspath(folder))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(scope="module", autouse=True)
def _garbage_of_this_file_only() -> Iterator[None]:
    """Finalizers may call an API (a TensorFlow session closes itself), which tests in another file would record."""
    yield
    gc.collect()


@pytest.fixture
def ipython(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """An IPython without history, whose cells share the names of a module of their own."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.setitem(sys.modules, "cells", ModuleType("cells"))
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(
        config=Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "nocolor"}}),
        ipython_dir=str(tmp_path / ".ipython"),
        user_module=sys.modules["cells"],
    )
    yield shell
    shell.restore_sys_module_state()
    InteractiveShell.clear_instance()


@pytest.fixture(scope="session")
def by_counts() -> Callable[[up.Run], up.Run]:
    """Replace the clock of a recorded run by one that ticks once for each event that begins or ends.

    What happens more often takes longer by it, and the load of the machine does not count.
    """
    import numpy as np
    import pyarrow.compute as pc

    import unified_profiler as up
    from unified_profiler.model.nesting import nest, with_column

    def counted(trace: up.Trace) -> up.Trace:
        events = trace.events.filter(pc.not_equal(trace.events["kind"], "counter"))  # they are read now and then
        start, duration = (events[name].to_numpy() for name in ("start_ns", "duration_ns"))
        _, tick = np.unique(np.concatenate([start, start + duration]), return_inverse=True)
        start, end = np.split(tick.astype(np.int64) * TICK_NS, 2)
        events = with_column(with_column(events, "start_ns", start), "duration_ns", end - start)
        return up.Trace(nest(events), trace.info)

    return lambda run: up.Run(traces=tuple(map(counted, run.traces)))
