"""The device analyses give to the nanosecond what the independent walk of the file gives by their definitions."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from tests.devices.kineto_walk import COMPUTE, COPY, DeviceSpan, Walk, walk
from tests.devices.walked_figures import breakdown, by_class, description, gaps, launch_delay, queue_lengths

GOLDEN = Path(__file__).parents[1] / "golden" / "kineto"
FILES = ("alexnet_cuda", "event_sync", "event_sync_multi_stream", "filter_rank0", "filter_rank1", "mi250_train")
each_file = pytest.mark.parametrize("name", [*FILES, "nccl_rank", "simple_add"])


@cache
def walked(name: str) -> Walk:
    return walk(GOLDEN / f"{name}.json.gz")


@cache
def run_of(name: str) -> up.Run:
    return up.read(GOLDEN / f"{name}.json.gz")


def by_device(work: list[DeviceSpan]) -> dict[str, list[DeviceSpan]]:
    devices: dict[str, list[DeviceSpan]] = defaultdict(list)
    for span in work:
        devices[f"cuda:{span.device}"].append(span)
    return devices


@each_file
def test_busy_idle_and_overlapping_time_of_devices(name: str) -> None:
    rows = {row.device: row for row in up.device_table(run_of(name)).devices}
    devices = by_device(walked(name).work)
    assert set(rows) == set(devices)
    for device, work in devices.items():
        row, expected = rows[device], breakdown(work)
        assert row.work_count == len(work)
        assert (row.span_ns, row.busy_ns, row.idle_ns) == (expected.span, expected.busy, expected.idle)
        assert (row.compute_ns, row.communication_ns, row.copy_ns) == (
            expected.compute,
            expected.communication,
            expected.copy,
        )
        assert row.exposed_communication_ns == expected.exposed_communication
        assert row.exposed_copy_ns == expected.exposed_copy
        assert row.overlap_ns == expected.overlap


@each_file
def test_busy_time_of_steps_is_that_of_the_work_they_launched(name: str) -> None:
    rows = {(row.device, row.step): row for row in up.device_table(run_of(name))}
    steps: dict[tuple[str, int | None], list[DeviceSpan]] = defaultdict(list)
    for span in walked(name).work:
        steps[f"cuda:{span.device}", span.step].append(span)
    assert set(rows) == set(steps)
    for key, work in steps.items():
        expected = breakdown(work)
        assert (rows[key].busy_ns, rows[key].compute_ns) == (expected.busy, expected.compute)
        assert rows[key].exposed_communication_ns == expected.exposed_communication


@each_file
def test_time_of_each_combination_of_classes(name: str) -> None:
    rows = {
        (row.device, frozenset(row.classes.split(" + "))): row.duration_ns
        for row in up.device_table(run_of(name)).classes
    }
    expected = {
        (device, classes): time
        for device, work in by_device(walked(name).work).items()
        for classes, time in by_class(work).items()
    }
    assert rows == expected


@each_file
def test_gaps_of_streams_and_whether_the_host_was_late(name: str) -> None:
    found = sorted(
        (row.stream, row.start_ns, row.duration_ns, row.cause in {"host_late", "synchronization"})
        for row in up.query(run_of(name), "select * from stream_gaps")
    )
    expected = sorted(
        (
            gap.stream,
            gap.previous_end,
            gap.start - gap.previous_end,
            gap.launch_start is not None and gap.launch_start > gap.previous_end,
        )
        for gap in gaps(walked(name).work)
        if gap.start > gap.previous_end
    )
    assert found == expected


@each_file
def test_causes_add_up_to_the_idle_time(name: str) -> None:
    causes = ("host_late", "synchronization", "queue_empty", "other_stream", "device_overhead", "unknown")
    for by in ("device", "stream"):
        table = up.device_table(run_of(name), by=by)
        for row in (*table.rows, *table.devices.rows):
            assert sum(getattr(row, f"{cause}_ns") for cause in causes) == row.idle_ns
            assert row.busy_ns + row.idle_ns <= row.span_ns


@each_file
def test_idle_time_of_steps_adds_up_to_that_of_the_device(name: str) -> None:
    table = up.device_table(run_of(name))
    for device in table.devices:
        assert sum(row.idle_ns for row in table if row.device == device.device) == device.idle_ns


@each_file
def test_launches_and_their_delays(name: str) -> None:
    row: Any = next(iter(up.launch_table(run_of(name), by="rank")))
    launched = [(span.launch, span) for span in walked(name).work if span.launch is not None]
    delays = [launch_delay(span) or 0 for _, span in launched]
    assert row.work_count == len(launched)
    assert row.launch_ns == sum(launch.end - launch.start for launch, _ in launched)
    assert row.work_ns == sum(span.end - span.start for _, span in launched)
    assert row.delay_max_ns == max(delays)
    assert row.delay_ns == pytest.approx(sum(delays) / len(delays), rel=1e-12)
    assert row.short_count == sum(s.end - s.start < launch.end - launch.start for launch, s in launched)


@each_file
def test_lengths_of_launch_queues(name: str) -> None:
    rows = {(row.device, row.stream): row for row in up.queue_table(run_of(name))}
    expected = {
        (f"cuda:{device}", stream): lengths for (device, stream), lengths in queue_lengths(walked(name).work).items()
    }
    assert set(rows) == set(expected)
    for key, lengths in expected.items():
        row, figures = rows[key], description(lengths)
        assert (row.change_count, row.length_min, row.length_max) == (len(lengths), min(lengths), max(lengths))
        assert row.length_mean == pytest.approx(figures["mean"])
        assert row.length_deviation == pytest.approx(figures["std"])
        quartiles = (row.length_p25, row.length_median, row.length_p75)
        assert quartiles == pytest.approx((figures["25%"], figures["50%"], figures["75%"]))


@each_file
def test_bytes_and_bandwidth_of_copies(name: str) -> None:
    rows = {row.name: row for row in up.copy_table(run_of(name))}
    copies: dict[str, list[DeviceSpan]] = defaultdict(list)
    for span in walked(name).work:
        if span.work_class == COPY:
            copies[span.name].append(span)
    assert set(rows) == set(copies)
    for kind, spans in copies.items():
        bandwidths = [span.bandwidth for span in spans if span.bandwidth is not None]
        assert rows[kind].copy_count == len(spans)
        assert rows[kind].duration_ns == sum(span.end - span.start for span in spans)
        if bandwidths:
            assert rows[kind].total_bytes == sum(span.bytes or 0 for span in spans)
            assert rows[kind].bandwidth_max == pytest.approx(max(bandwidths))
            assert rows[kind].bandwidth_median == pytest.approx(description(bandwidths)["50%"])
        else:
            assert rows[kind].bandwidth is None


@each_file
def test_spread_of_kernel_durations(name: str) -> None:
    totals: dict[str, list[int]] = defaultdict(list)
    for span in walked(name).work:
        if span.work_class == COMPUTE:
            totals[span.name].append(span.end - span.start)
    counted: dict[str, list[int]] = defaultdict(lambda: [0, 0, 1 << 62, 0])
    for row in up.kernel_table(run_of(name)):
        count = counted[row.name]
        count[:] = [
            count[0] + row.call_count,
            count[1] + row.duration_ns,
            min(count[2], row.min_ns),
            max(count[3], row.max_ns),
        ]
    assert counted == {kernel: [len(each), sum(each), min(each), max(each)] for kernel, each in totals.items()}
