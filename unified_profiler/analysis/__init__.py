"""Analyses: pure functions that turn a Trace or a Run into a frozen Result. Their queries are .sql files."""

from __future__ import annotations

from unified_profiler.analysis.api_table import api_table
from unified_profiler.analysis.critical_path import CriticalPath, WhatIf, critical_path, what_if
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
    "CriticalPath",
    "DeviceTable",
    "RankTable",
    "Result",
    "WhatIf",
    "align_clocks",
    "api_table",
    "collective_table",
    "copy_table",
    "critical_path",
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
    "what_if",
    "with_op_map",
]
