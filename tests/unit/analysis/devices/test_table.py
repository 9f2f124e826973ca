from __future__ import annotations

from typing import Any

import pytest

from tests.unit.analysis.devices.conftest import MakeTrace, launched, step
from unified_profiler.analysis import device_table
from unified_profiler.errors import ConfigurationError
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace


def only_device(trace: Trace) -> Any:
    (row,) = device_table(trace).devices
    return row


def test_work_counts_for_the_step_that_launched_it(two_steps: Trace) -> None:
    rows = {row.step: row for row in device_table(two_steps)}
    assert rows[0].busy_ns == 40 + 30
    assert rows[1].busy_ns == 30


def test_idle_time_counts_for_the_step_of_the_work_that_ended_it(two_steps: Trace) -> None:
    rows = {row.step: row for row in device_table(two_steps)}
    assert (rows[0].idle_ns, rows[1].idle_ns) == (110 - 60, 160 - 140)


def test_span_of_a_step_includes_the_gap_before_its_first_work(two_steps: Trace) -> None:
    rows = {row.step: row for row in device_table(two_steps)}
    assert (rows[0].span_ns, rows[1].span_ns) == (140 - 20, 190 - 140)


def test_host_time_is_not_device_time(make_trace: MakeTrace) -> None:
    trace = make_trace({"at": (0, 1000)}, *launched((0, 5), (10, 20), number=1), *launched((0, 5), (30, 40), number=2))
    row = only_device(trace)
    assert (row.span_ns, row.busy_ns, row.idle_ns) == (30, 20, 10)


def test_communication_is_exposed_where_nothing_is_computed(make_trace: MakeTrace) -> None:
    row = only_device(
        make_trace(
            *launched((0, 1), (10, 50), number=1, kind="collective", stream=8),
            *launched((0, 1), (30, 60), number=2),
            *launched((0, 1), (40, 80), number=3, kind="copy", stream=9),
        )
    )
    assert (row.communication_ns, row.exposed_communication_ns, row.overlap_ns) == (40, 20, 20)
    assert (row.copy_ns, row.exposed_copy_ns) == (40, 20)
    assert (row.span_ns, row.busy_ns, row.idle_ns) == (70, 70, 0)


@pytest.mark.parametrize(
    ("call", "cause"),
    [((60, 70), "host_late"), ((40, 70), "queue_empty"), ((20, 30), "device_overhead")],
)
def test_a_gap_is_explained_by_the_launch_of_the_next_work(
    make_trace: MakeTrace, call: tuple[int, int], cause: str
) -> None:
    row = only_device(make_trace(*launched((0, 5), (10, 50), number=1), *launched(call, (80, 90), number=2)))
    assert getattr(row, f"{cause}_ns") == row.idle_ns == 30


def test_a_late_launch_after_waiting_for_the_device_is_synchronization(make_trace: MakeTrace) -> None:
    wait = {"name": "cudaStreamSynchronize", "kind": "runtime", "layer": "runtime", "at": (10, 52)}
    trace = make_trace(wait, *launched((0, 5), (10, 50), number=1), *launched((60, 70), (80, 90), number=2))
    assert only_device(trace).synchronization_ns == 30


def test_another_thread_that_waits_for_the_device_explains_nothing(make_trace: MakeTrace) -> None:
    wait = {"name": "cudaStreamSynchronize", "kind": "runtime", "layer": "runtime", "at": (10, 52), "tid": 2}
    trace = make_trace(wait, *launched((0, 5), (10, 50), number=1), *launched((60, 70), (80, 90), number=2))
    assert only_device(trace).host_late_ns == 30


def test_a_stream_that_continues_when_another_ends_waited_for_it(make_trace: MakeTrace) -> None:
    trace = make_trace(
        *launched((0, 1), (0, 10), number=1),
        *launched((0, 1), (0, 100_000), number=2, stream=8),
        *launched((2, 3), (100_010, 100_020), number=3),
    )
    rows = {row.stream: row for row in device_table(trace, by="stream").devices}
    assert rows[7].other_stream_ns == 100_000


def test_a_long_gap_before_queued_work_has_an_unknown_cause(make_trace: MakeTrace) -> None:
    trace = make_trace(*launched((0, 5), (10, 50), number=1), *launched((6, 7), (90_000, 90_010), number=2))
    assert only_device(trace).unknown_ns == 90_000 - 50


def test_work_without_a_launch_has_an_unknown_cause(make_trace: MakeTrace) -> None:
    _, unlaunched = launched((0, 1), (80, 90), number=2)
    trace = make_trace(*launched((0, 5), (10, 50), number=1), {**unlaunched, "correlation_id": None})
    assert only_device(trace).unknown_ns == 30


def test_devices_and_ranks_have_rows_of_their_own(make_trace: MakeTrace) -> None:
    rows = (*launched((0, 1), (0, 10), number=1), *launched((0, 1), (0, 20), number=2, device="cuda:1", pid=1))
    run = Run(traces=(make_trace(*rows, rank=0), make_trace(*rows, rank=1)))
    table = device_table(run)
    assert [(row.rank, row.device, row.busy_ns) for row in table.devices] == [
        *((0, "cuda:0", 10), (0, "cuda:1", 20)),
        *((1, "cuda:0", 10), (1, "cuda:1", 20)),
    ]


def test_cycles_of_a_rank_add_up_and_the_time_between_them_is_not_idle(make_trace: MakeTrace) -> None:
    cycles = [
        make_trace(
            step(cycle, (begin, begin + 100)),
            *launched((begin, begin + 1), (begin + 10, begin + 30), number=1),
            *launched((begin, begin + 1), (begin + 40, begin + 50), number=2),
            cycle=cycle,
        )
        for cycle, begin in enumerate((0, 10_000))
    ]
    table = device_table(Run(traces=tuple(cycles)))
    assert [(row.cycle, row.step, row.busy_ns, row.idle_ns) for row in table] == [(0, 0, 30, 10), (1, 1, 30, 10)]
    (device,) = table.devices
    assert (device.span_ns, device.busy_ns, device.idle_ns) == (80, 60, 20)


def test_the_verdict_names_idle_share_and_main_cause(make_trace: MakeTrace) -> None:
    table = device_table(make_trace(*launched((0, 5), (0, 25), number=1), *launched((60, 70), (75, 100), number=2)))
    assert [statement.code for statement in table.verdict] == ["idle", "cause_host_late"]
    assert table.verdict[0].text == "cuda:0 was idle 50.0% of 0.100 us."


def test_a_trace_of_the_cpu_alone_has_no_device(make_trace: MakeTrace) -> None:
    table = device_table(make_trace(step(0, (0, 10)), {"at": (0, 5)}))
    assert len(table) == 0
    assert "No work of a device" in str(table)


def test_an_unknown_grouping_is_refused(two_steps: Trace) -> None:
    with pytest.raises(ConfigurationError, match="must be one of device, stream"):
        device_table(two_steps, by="steps")


def test_idle_streams_have_no_verdict(two_steps: Trace) -> None:
    table = device_table(two_steps, by="stream")
    assert table.verdict == ()
    assert "No work of a device" not in str(table)
