"""Analyses: pure functions that turn a Trace or a Run into a frozen Result. Their queries are .sql files.

The largest, `critical_path`, is a package of its own, which is loaded only where it is asked for.
"""

from __future__ import annotations

from unified_profiler.analysis.api_table import api_table
from unified_profiler.analysis.devices.selections import (
    collective_table,
    copy_table,
    gap_table,
    kernel_sequences,
    kernel_table,
    launch_table,
    queue_table,
)
from unified_profiler.analysis.devices.table import DeviceTable, device_table
from unified_profiler.analysis.op_map import with_op_map
from unified_profiler.analysis.op_table import op_table
from unified_profiler.analysis.query import query
from unified_profiler.analysis.rank_steps import align_clocks
from unified_profiler.analysis.rank_table import RankTable, rank_table
from unified_profiler.analysis.step_breakdown import step_breakdown
from unified_profiler.engine import Result

__all__ = [
    "DeviceTable",
    "RankTable",
    "Result",
    "align_clocks",
    "api_table",
    "collective_table",
    "copy_table",
    "device_table",
    "gap_table",
    "kernel_sequences",
    "kernel_table",
    "launch_table",
    "op_table",
    "query",
    "queue_table",
    "rank_table",
    "step_breakdown",
    "with_op_map",
]
