"""Analyses: pure functions that turn a Trace or a Run into a frozen Result. Their queries are .sql files."""

from __future__ import annotations

from unified_profiler.analysis.api_table import api_table
from unified_profiler.analysis.critical_path import CriticalPath, WhatIf, critical_path, what_if
from unified_profiler.analysis.op_map import with_op_map
from unified_profiler.analysis.op_table import op_table
from unified_profiler.analysis.rank_steps import align_clocks
from unified_profiler.analysis.rank_table import RankTable, rank_table
from unified_profiler.analysis.step_breakdown import step_breakdown
from unified_profiler.engine import Result, query

__all__ = [
    "CriticalPath",
    "RankTable",
    "Result",
    "WhatIf",
    "align_clocks",
    "api_table",
    "critical_path",
    "op_table",
    "query",
    "rank_table",
    "step_breakdown",
    "what_if",
    "with_op_map",
]
