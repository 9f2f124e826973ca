"""Measures HolisticTraceAnalysis in its own environment: `python hta_peer.py SMALL_TRACE TRACE [ANALYSIS ...]`.

Runs by its path, without this project, and needs nothing but HTA and the standard library.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _critical_path(hta: Any) -> object:
    """Compute the path through the whole trace, and what each of its edges contributes."""
    graph, ok = hta.critical_path_analysis(rank=0, annotation="", instance_id=None)
    if not ok:
        msg = "HTA has no critical path of this trace."
        raise RuntimeError(msg)
    return graph.get_critical_path_breakdown()


ANALYSES: dict[str, Callable[[Any], object]] = {
    "temporal breakdown": lambda hta: hta.get_temporal_breakdown(visualize=False),
    "idle time breakdown": lambda hta: hta.get_idle_time_breakdown(visualize=False, show_idle_interval_stats=True),
    "communication overlap": lambda hta: hta.get_comm_comp_overlap(visualize=False),
    "kernel breakdown": lambda hta: hta.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=True),
    "launch statistics": lambda hta: hta.get_cuda_kernel_launch_stats(visualize=False),
    "queue length": lambda hta: hta.get_queue_length_summary(),
    "memory bandwidth": lambda hta: hta.get_memory_bw_summary(),
    "critical path": _critical_path,
}


def measure(small: str, path: str, analyses: list[str]) -> dict[str, Any]:
    """Return the CPU seconds of reading and of each analysis, and the peak memory after reading and at the end.

    A small trace is analyzed first, so that imports do not count.
    """
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    trace_analysis = importlib.import_module("hta.trace_analysis").TraceAnalysis
    warm_up = trace_analysis(trace_files={0: small}, include_last_profiler_step=True)
    for name in analyses:
        ANALYSES[name](warm_up)
    del warm_up
    start = time.process_time()
    hta = trace_analysis(trace_files={0: path}, include_last_profiler_step=True)
    figures: dict[str, Any] = {"seconds": {"read": time.process_time() - start}, "peak_read": _peak()}
    figures["events"] = len(hta.t.get_trace(0))
    for name in analyses:
        start = time.process_time()
        ANALYSES[name](hta)
        figures["seconds"][name] = time.process_time() - start
    return {**figures, "peak": _peak()}


def _peak() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], sys.argv[3:])))
