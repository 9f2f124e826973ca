from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.analysis.devices.conftest import MakeTrace, launched
from unified_profiler.analysis import query, queue_table
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace

FIGURES = """
select rank, device, stream, count(*) as change_count, avg(length) as length_mean,
    stddev_samp(length) as length_deviation, min(length) as length_min,
    percentile_cont(0.25) within group (order by length) as length_p25, median(length) as length_median,
    percentile_cont(0.75) within group (order by length) as length_p75, max(length) as length_max,
    sum(case when length = 0 then duration_ns else 0 end) / nullif(sum(duration_ns), 0) as empty_share,
    sum(case when length >= 2 then duration_ns else 0 end) as full_ns
from launch_queue group by rank, device, stream order by rank, device, stream nulls last
"""

TIMES = st.integers(0, 40)
WORK = st.tuples(TIMES, TIMES, st.sampled_from([7, 8, None]), st.sampled_from(["cuda:0", "cuda:1"]))


def _trace(make_trace: MakeTrace, work: list[tuple[int, int, int | None, str]]) -> Trace:
    rows: list[dict[str, Any]] = []
    for number, (call, start, stream, device) in enumerate(work):
        host, own = launched((call, call + 1), (start, start + 3), number=number, device=device)
        rows += [host, {**own, "stream": stream, "tid": stream or 0}]
    return make_trace(*rows)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cycles=st.lists(st.lists(WORK, min_size=1, max_size=12), min_size=1, max_size=3))
def test_the_figures_are_those_of_all_changes(make_trace: MakeTrace, cycles: list[Any]) -> None:
    """Work may begin before its launch, if the clocks differ; a queue is then shorter than nothing."""
    run = Run(traces=tuple(_trace(make_trace, work) for work in cycles))
    rows, expected = queue_table(run, full=2).table, query(run, FIGURES).table
    assert rows.column_names == expected.column_names
    for row, other in zip(rows.to_pylist(), expected.to_pylist(), strict=True):
        deviations = row.pop("length_deviation"), other.pop("length_deviation")
        assert deviations[0] == pytest.approx(deviations[1], rel=1e-12, abs=1e-12)
        assert row == other


def test_a_trace_without_launches_has_no_queues(make_trace: MakeTrace) -> None:
    table = queue_table(make_trace({"name": "aten::add", "at": (0, 1)})).table
    assert len(table) == 0
    assert table.schema.field("length_mean").type == pa.float64()
    assert table.schema.field("device").type == pa.string()
