"""The independent walk gives the figures of HolisticTraceAnalysis, after the quirks of its own are applied."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.devices import hta_quirks
from tests.devices.kineto_walk import ANNOTATION, COMMUNICATION, COMPUTE, COPY, DeviceSpan, Walk, walk
from tests.devices.walked_figures import by_class, description, length, queue_lengths

GOLDEN = Path(__file__).parents[1] / "golden"
TRACES = {
    "filter_2ranks": ("filter_rank0", "filter_rank1"),
    "alexnet": ("alexnet_cuda",),
    "simple_add": ("simple_add",),
    "event_sync": ("event_sync",),
    "event_sync_ms": ("event_sync_multi_stream",),
    "nccl_data": ("nccl_rank",),
}
RANKS = [(trace, rank) for trace, files in TRACES.items() for rank in range(len(files))]
each_trace = pytest.mark.parametrize("trace", TRACES)
each_rank = pytest.mark.parametrize(("trace", "rank"), RANKS)


def hta(figure: str, trace: str) -> Any:
    """Return what HTA computed."""
    document = json.loads((GOLDEN / "hta" / f"{figure}.json").read_text(encoding="utf-8"))
    return document["traces"][trace]["value"]


@cache
def walked(trace: str, rank: int) -> Walk:
    """Return the trace in whole microseconds, as HTA sees it."""
    return hta_quirks.in_whole_microseconds(walk(GOLDEN / "kineto" / f"{TRACES[trace][rank]}.json.gz"))


def rows_of(trace: str, rank: int) -> list[DeviceSpan]:
    return hta_quirks.classified_by_name(hta_quirks.device_rows(walked(trace, rank)))


def merged_length(rows: Iterable[DeviceSpan], work_class: str | None = None) -> float:
    selected = [row for row in rows if work_class is None or row.work_class == work_class]
    return length(hta_quirks.merged_in_order_of_start(selected)) / 1000


@each_rank
def test_busy_idle_and_compute_time(trace: str, rank: int) -> None:
    expected = hta("temporal_breakdown", trace)[rank]
    rows = rows_of(trace, rank)
    intervals = hta_quirks.merged_in_order_of_start(rows)
    span = (intervals[-1][1] - intervals[0][0]) / 1000
    busy, compute = merged_length(rows), merged_length(rows, COMPUTE)
    assert span == expected["kernel_time(us)"]
    assert span - busy == expected["idle_time(us)"]
    assert compute == expected["compute_time(us)"]
    assert busy - compute == expected["non_compute_time(us)"]
    assert round(100 * (span - busy) / span, 2) == expected["idle_time_pctg"]


@each_rank
def test_share_of_communication_that_computation_hides(trace: str, rank: int) -> None:
    expected = hta("comm_comp_overlap", trace)[rank]["comp_comm_overlap_pctg"]
    rows = rows_of(trace, rank)
    communication = merged_length(rows, COMMUNICATION)
    if not communication:
        assert expected is None
        return
    both = by_class(row for row in rows if row.work_class in {COMMUNICATION, COMPUTE})
    overlap = both[frozenset({COMMUNICATION, COMPUTE})] / 1000
    assert round(100 * overlap / communication, 2) == expected


@each_trace
def test_time_of_each_combination_of_classes(trace: str) -> None:
    names = {COMPUTE: "COMPUTATION", COMMUNICATION: "COMMUNICATION", COPY: "MEMORY"}
    times: dict[str, int] = defaultdict(int)
    for rank in range(len(TRACES[trace])):
        for classes, time in by_class(row for row in rows_of(trace, rank) if row.work_class in names).items():
            times[" overlapping ".join(name for key, name in names.items() if key in classes)] += time
    expected = {entry["kernel_type"]: entry["sum"] for entry in hta("kernel_classes", trace)}
    assert {name: time / 1000 for name, time in times.items()} == expected


@each_rank
def test_idle_time_of_streams_by_cause(trace: str, rank: int) -> None:
    totals, statistics = hta("idle_time_breakdown", trace)[rank]
    lengths: dict[tuple[int, str], list[float]] = defaultdict(list)
    for gap in hta_quirks.gaps_between_rows(walked(trace, rank).work):
        lengths[gap.stream, hta_quirks.idle_cause(gap)].append((gap.start - gap.previous_end) / 1000)
    expected = {(row["stream"], row["idle_category"]): row["idle_time"] for row in totals}
    assert set(lengths) <= set(expected)
    assert {key: sum(lengths[key]) for key in expected} == expected
    for row in statistics:
        values = lengths[row["stream"], row["idle_category"]]
        described = description(values) if values else {"count": 0.0}
        assert {key: round(value, 2) for key, value in described.items() if value is not None} == {
            key: row[key] for key, value in described.items() if value is not None
        }


@each_rank
def test_launches_and_their_delays(trace: str, rank: int) -> None:
    launched = [
        (span.launch, span)
        for span in walked(trace, rank).work
        if span.launch is not None and span.launch.name in hta_quirks.LAUNCH_STATISTICS_CALLS
    ]
    host = [(launch.end - launch.start) / 1000 for launch, _ in launched]
    device = [(span.end - span.start) / 1000 for _, span in launched]
    delays = [max(0, span.start - launch.end) / 1000 for launch, span in launched]
    assert hta("cuda_kernel_launch_stats_sums", trace)[str(rank)] == {
        "n": len(launched),
        "sum_cpu": sum(host),
        "sum_gpu": sum(device),
        "sum_delay": sum(delays),
        "max_delay": max(delays),
        "n_delay_gt100": sum(delay > 100 for delay in delays),
        "n_short_kernel": sum(on_device < on_host for on_host, on_device in zip(host, device, strict=True)),
        "n_cpu_gt50": sum(duration > 50 for duration in host),
    }


@each_rank
def test_queue_lengths_up_to_the_order_of_simultaneous_changes(trace: str, rank: int) -> None:
    work = walked(trace, rank).work
    longest = queue_lengths(work, launches_first=True)
    shortest = queue_lengths(work, launches_first=False)
    rows = [row for row in hta("queue_length_summary", trace) if row["('rank', '')"] == rank]
    assert {row["('stream', '')"] for row in rows} == {stream for _, stream in longest}
    for row in rows:
        stream = next(key for key in longest if key[1] == row["('stream', '')"])
        low, high = description(shortest[stream]), description(longest[stream])
        for name in ("count", "mean", "min", "25%", "50%", "75%", "max"):
            value, bounds = row[f"('queue_length', '{name}')"], (low[name], high[name])
            assert (bounds[0] or 0) - 1e-9 <= value <= (bounds[1] or 0) + 1e-9
        if low == high:
            assert row["('queue_length', 'std')"] == pytest.approx(high["std"], abs=1e-9)


@each_rank
def test_bandwidth_of_copies(trace: str, rank: int) -> None:
    bandwidths: dict[str, list[float]] = defaultdict(list)
    for span in walked(trace, rank).work:
        if span.work_class == COPY and span.recorded_bandwidth:
            bandwidths["Memset" if span.name.startswith("Memset") else span.name[:11]].append(span.recorded_bandwidth)
    rows = [row for row in hta("memory_bw_summary", trace) if row["('rank', '')"] == rank]
    assert {row["('name', '')"] for row in rows} == set(bandwidths)
    for row in rows:
        for name, value in description(bandwidths[row["('name', '')"]]).items():
            expected = None if value is None else pytest.approx(value, abs=1e-10, rel=1e-9)
            assert row[f"('memory_bw_gbps', '{name}')"] == expected, (row["('name', '')"], name)


@each_trace
def test_steps(trace: str) -> None:
    assert sorted({number for number, _, _ in walked(trace, 0).steps}) == hta("profiler_steps", trace)


@each_trace
def test_annotations_of_the_device(trace: str) -> None:
    durations: dict[str, list[float]] = defaultdict(list)
    for span in walked(trace, 0).spans:
        if span.work_class == ANNOTATION:
            durations[span.name].append((span.end - span.start) / 1000)
    rows = hta("gpu_user_annotation_breakdown", trace) or []
    assert {row["name"] for row in rows} == set(durations)
    for row in rows:
        described = description(durations[row["name"]])
        assert row["sum (us)"] == sum(durations[row["name"]])
        assert (row["min (us)"], row["max (us)"]) == (described["min"], described["max"])
        assert row["mean (us)"] == pytest.approx(described["mean"])
        assert row["stddev"] == pytest.approx(described["std"])
