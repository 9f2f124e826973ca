from __future__ import annotations

import pytest

import unified_profiler

PUBLIC = [
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


def test_the_public_names_are_these_and_no_others() -> None:
    assert unified_profiler.__all__ == PUBLIC


def test_every_public_name_is_there() -> None:
    assert all(getattr(unified_profiler, name) is not None for name in PUBLIC)


def test_dir_lists_the_public_names() -> None:
    assert dir(unified_profiler) == sorted(PUBLIC)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    name = "Session"
    with pytest.raises(AttributeError, match="no attribute 'Session'"):
        getattr(unified_profiler, name)
