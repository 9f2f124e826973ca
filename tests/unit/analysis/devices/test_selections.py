from __future__ import annotations

import pytest

from tests.unit.analysis.devices.conftest import MakeTrace, launched
from unified_profiler.analysis import (
    collective_table,
    copy_table,
    gap_table,
    kernel_sequences,
    kernel_table,
    launch_table,
    query,
    queue_table,
)
from unified_profiler.errors import ConfigurationError
from unified_profiler.model.trace import Trace

ALL_REDUCE = (
    '{"Collective name":"allreduce","In msg nelems":1000,"Out msg nelems":1000,"dtype":"Float","Group size":4,'
    '"Process Group Name":"0"}'
)


def test_the_longest_gaps_name_what_the_host_did(make_trace: MakeTrace) -> None:
    trace = make_trace(
        {"name": "forward", "kind": "region", "layer": "application", "framework": None, "at": (0, 300)},
        {"name": "aten::linear", "at": (60, 240), "stack": "train.py(1): <module>;model.py(41): forward"},
        {"name": "aten::addmm", "at": (65, 80), "stack": "train.py(1): <module>;model.py(41): forward"},
        *launched((0, 5), (10, 50), number=1),
        *launched((230, 235), (250, 260), number=2),
        *launched((242, 245), (270, 280), number=3),
    )
    longest, shorter = gap_table(trace)
    assert (longest.duration_ns, longest.cause, longest.host_activity) == (200, "host_late", "aten::linear")
    assert longest.host_activity_ns == 180 - 15 - 5
    assert (longest.host_region, longest.host_source) == ("forward", "model.py(41): forward")
    assert shorter.duration_ns == 10


def test_a_gap_in_which_the_host_recorded_nothing_has_no_activity(make_trace: MakeTrace) -> None:
    trace = make_trace(*launched((0, 5), (10, 50), number=1), *launched((140, 145), (150, 160), number=2))
    (gap,) = gap_table(trace)
    assert (gap.host_activity, gap.host_activity_ns) == (None, 95)


def test_launches_are_summed_by_the_operator_around_the_call(make_trace: MakeTrace) -> None:
    trace = make_trace(
        {"name": "aten::linear", "at": (0, 100)},
        {"name": "aten::addmm", "at": (10, 90)},
        *launched((20, 30), (35, 40), number=1),
        *launched((40, 50), (45, 80), number=2),
        *launched((110, 120), (130, 140), number=3),
    )
    rows = {row.operator: row for row in launch_table(trace)}
    assert set(rows) == {"aten::addmm", None}
    row = rows["aten::addmm"]
    assert (row.work_count, row.launch_ns, row.work_ns, row.short_count) == (2, 20, 40, 1)
    assert (row.delay_ns, row.delay_max_ns) == (2.5, 5)


def test_a_queue_is_as_long_as_the_launches_that_have_not_begun(make_trace: MakeTrace) -> None:
    trace = make_trace(
        *launched((0, 1), (10, 20), number=1),
        *launched((2, 3), (20, 30), number=2),
        *launched((4, 5), (30, 40), number=3),
    )
    lengths = query(trace, "select start_ns - min(start_ns) over () as t, length from launch_queue order by 1").rows
    assert [tuple(row) for row in lengths] == [(0, 1), (2, 2), (4, 3), (10, 2), (20, 1), (30, 0)]
    (row,) = queue_table(trace, full=3)
    assert (row.length_max, row.full_ns, row.empty_share) == (3, 6, 0)


def test_copies_have_bandwidth_and_kind_of_host_memory(make_trace: MakeTrace) -> None:
    names = {"Memcpy HtoD (Pinned -> Device)": 4000, "Memcpy HtoD (Pageable -> Device)": 1000, "Memset (Device)": None}
    rows = [
        row
        for number, (name, size) in enumerate(names.items())
        for row in launched((0, 1), (10, 110), number=number, kind="copy", name=name, bytes=size, stream=number)
    ]
    copies = {row.name: row for row in copy_table(make_trace(*rows))}
    assert [copies[name].memory for name in names] == ["pinned", "pageable", None]
    assert [copies[name].bandwidth for name in names] == [40.0, 10.0, None]


def test_a_kernel_has_the_grid_that_its_framework_records(make_trace: MakeTrace) -> None:
    attributes = ('{"grid": [25, 4, 32], "block": [256, 1, 1]}', '{"grid": "wide"}', None)
    rows = [
        row
        for number, text in enumerate(attributes)
        for row in launched((number, number + 1), (10, 20), number=number, stream=number, attributes=text)
    ]
    grids = query(make_trace(*rows), "select grid from device_work order by stream").rows
    assert [row.grid for row in grids] == ["25 x 4 x 32 of 256 x 1 x 1", None, None]


def test_an_all_reduce_moves_its_data_twice_over_the_bus(make_trace: MakeTrace) -> None:
    trace = make_trace(*launched((0, 1), (0, 1000), number=1, kind="collective", name="nccl", attributes=ALL_REDUCE))
    (row,) = collective_table(trace)
    assert (row.collective, row.group_size, row.total_bytes, row.size_class_bytes) == ("allreduce", 4, 4000, 4096)
    assert (row.algorithm_bandwidth, row.bus_bandwidth) == (4.0, pytest.approx(4.0 * 2 * 3 / 4))


def test_a_collective_of_unknown_size_has_no_bandwidth(make_trace: MakeTrace) -> None:
    trace = make_trace(*launched((0, 1), (0, 1000), number=1, kind="collective", name="nccl"))
    (row,) = collective_table(trace)
    assert (row.collective, row.size_class_bytes, row.algorithm_bandwidth, row.bus_bandwidth) == (
        "nccl",
        None,
        None,
        None,
    )


def test_kernels_are_told_apart_by_the_shapes_of_their_operator(make_trace: MakeTrace) -> None:
    shapes = ["[[8,8]]", "[[8,8]]", "[[64,64]]"]
    rows = [
        row
        for number, text in enumerate(shapes)
        for row in (
            {"name": "aten::mm", "at": (100 * number, 100 * number + 90), "input_shapes": text},
            *launched(
                (100 * number + 1, 100 * number + 2), (100 * number + 10, 100 * number + 20 + number), number=number
            ),
        )
    ]
    kernels = {row.shapes: row for row in kernel_table(make_trace(*rows))}
    assert (kernels["[[8,8]]"].call_count, kernels["[[8,8]]"].duration_ns) == (2, 21)
    assert kernels["[[8,8]]"].variation == pytest.approx(0.5 / 10.5, abs=1e-6)
    assert kernels["[[64,64]]"].variation == 0


def sequence_trace(make_trace: MakeTrace, names: str) -> Trace:
    kinds = {"c": "copy"}
    return make_trace(
        *(
            row
            for number, name in enumerate(names)
            for row in launched(
                (10 * number, 10 * number + 2),
                (10 * number + 3, 10 * number + 8),
                number=number,
                name=name,
                kind=kinds.get(name, "kernel"),
            )
        )
    )


def test_repeated_sequences_of_kernels_are_listed_with_the_time_between_them(make_trace: MakeTrace) -> None:
    rows = {row.sequence: row for row in kernel_sequences(sequence_trace(make_trace, "abxabyab"), length=2)}
    assert set(rows) == {"a → b"}
    assert (rows["a → b"].call_count, rows["a → b"].duration_ns, rows["a → b"].gap_ns) == (3, 30, 15)
    assert rows["a → b"].launch_ns == 6


def test_a_sequence_does_not_reach_across_a_copy(make_trace: MakeTrace) -> None:
    assert len(kernel_sequences(sequence_trace(make_trace, "acbacbacb"), length=2)) == 1  # only b → a
    assert len(kernel_sequences(sequence_trace(make_trace, "acbacbacb"), length=3)) == 0


@pytest.mark.parametrize("length", [1, 9])
def test_a_sequence_has_from_two_to_eight_kernels(make_trace: MakeTrace, length: int) -> None:
    with pytest.raises(ConfigurationError, match="length"):
        kernel_sequences(sequence_trace(make_trace, "ab"), length=length)
