"""One profiler for PyTorch, TensorFlow and MindSpore.

Record a training loop:

    import unified_profiler as up

    with up.Profiler(schedule=up.schedule(wait=1, warmup=1, active=3), output_dir="profile") as prof:
        for batch in batches:
            train(batch)
            prof.step()

or a script as it is, on the command line: `unified-profiler run train.py`.

* Results of a recording: `prof.traces`, `prof.run`; from files, also of native profilers: `read`
* What takes the time: `summarize`, `op_table`, `step_breakdown`, `critical_path`, `what_if`; of devices:
  `device_table`, `gap_table`, `launch_table`, `kernel_table`, `copy_table`, `collective_table`; of ranks: `rank_table`
* Any other question: `query`, in SQL
* Two runs: `diff`, and `gate` for CI
* Files: `write` (report.html, .md, .json.gz for Perfetto, .parquet, .csv)
* Calls of the frameworks' API: `trace_api`, `api_table`

Names that need numpy or Arrow are loaded when first used, so that `import unified_profiler` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from unified_profiler._version import __version__
from unified_profiler.schedule import Phase, Schedule, Slot, schedule

if TYPE_CHECKING:
    from unified_profiler.analysis import (
        align_clocks,
        api_table,
        collective_table,
        copy_table,
        device_table,
        gap_table,
        kernel_sequences,
        kernel_table,
        launch_table,
        op_table,
        query,
        queue_table,
        rank_table,
        step_breakdown,
        with_op_map,
    )
    from unified_profiler.analysis.critical_path import critical_path, what_if
    from unified_profiler.comparison import Diff, diff
    from unified_profiler.engine import DuckDBEngine, SparkEngine
    from unified_profiler.errors import UnifiedProfilerError
    from unified_profiler.export import write_api_calls, write_models_layout
    from unified_profiler.export.writing import write
    from unified_profiler.gating import Gate, Verdict, gate
    from unified_profiler.model.api_names import api_name
    from unified_profiler.model.run import Run
    from unified_profiler.model.trace import Trace
    from unified_profiler.process_wide import default_profiler
    from unified_profiler.profiler import Profiler
    from unified_profiler.readers import read
    from unified_profiler.report import Summary, summarize
    from unified_profiler.tracing import log_api_calls, trace_api

_HOMES = {
    "Diff": "comparison",
    "DuckDBEngine": "engine",
    "Gate": "gating",
    "Profiler": "profiler",
    "Run": "model.run",
    "SparkEngine": "engine",
    "Summary": "report",
    "Trace": "model.trace",
    "UnifiedProfilerError": "errors",
    "Verdict": "gating",
    "align_clocks": "analysis",
    "api_name": "model.api_names",
    "api_table": "analysis",
    "collective_table": "analysis",
    "copy_table": "analysis",
    "critical_path": "analysis.critical_path",
    "default_profiler": "process_wide",
    "device_table": "analysis",
    "diff": "comparison",
    "gap_table": "analysis",
    "gate": "gating",
    "kernel_sequences": "analysis",
    "kernel_table": "analysis",
    "launch_table": "analysis",
    "load_ipython_extension": "integrations.ipython",  # a hook that IPython looks up, hence not in __all__
    "log_api_calls": "tracing",
    "op_table": "analysis",
    "query": "analysis",
    "queue_table": "analysis",
    "rank_table": "analysis",
    "read": "readers",
    "step_breakdown": "analysis",
    "summarize": "report",
    "trace_api": "tracing",
    "what_if": "analysis.critical_path",
    "with_op_map": "analysis",
    "write": "export.writing",
    "write_api_calls": "export",
    "write_models_layout": "export",
}

__all__ = [
    "Diff",
    "DuckDBEngine",
    "Gate",
    "Phase",
    "Profiler",
    "Run",
    "Schedule",
    "Slot",
    "SparkEngine",
    "Summary",
    "Trace",
    "UnifiedProfilerError",
    "Verdict",
    "__version__",
    "align_clocks",
    "api_name",
    "api_table",
    "collective_table",
    "copy_table",
    "critical_path",
    "default_profiler",
    "device_table",
    "diff",
    "gap_table",
    "gate",
    "kernel_sequences",
    "kernel_table",
    "launch_table",
    "log_api_calls",
    "op_table",
    "query",
    "queue_table",
    "rank_table",
    "read",
    "schedule",
    "step_breakdown",
    "summarize",
    "trace_api",
    "what_if",
    "with_op_map",
    "write",
    "write_api_calls",
    "write_models_layout",
]


def __getattr__(name: str) -> object:
    """Load a public name from its home."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
