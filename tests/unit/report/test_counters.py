from __future__ import annotations

import unified_profiler as up
from unified_profiler.model.run import Run
from unified_profiler.report.counters import ALLOCATED, counters
from unified_profiler.testing import TraceBuilder


def counted() -> up.Trace:
    builder = TraceBuilder().op("op", 0, 100)
    for moment, value in ((10, 50.0), (20, 100.0)):
        sample = {"layer": "hardware", "kind": "counter", "framework": None}
        builder.op("process CPU %", moment, 0, value=value, **sample)
        builder.op("core CPU %", moment, 0, value=value, device="cpu:0", **sample)
        builder.op("core CPU %", moment, 0, value=value / 2, device="cpu:1", **sample)
    for moment, size in ((30, 100), (40, 50), (50, -100)):
        builder.op("[memory]", moment, 0, kind="memory", bytes=size, device="cpu:0")
    return builder.build()


def test_curves_are_told_apart_by_name_and_device() -> None:
    found = counters(Run(traces=(counted(),)))
    curves = {(counter.name, counter.device): counter.value.tolist() for counter in found}
    assert curves["process CPU %", None] == [50, 100]
    assert curves["core CPU %", "cpu:1"] == [25, 50]


def test_allocations_add_up_to_a_curve() -> None:
    (curve,) = [counter for counter in counters(Run(traces=(counted(),))) if counter.name == ALLOCATED]
    assert (curve.value.tolist(), curve.unit, curve.hardware) == ([100, 150, 50], "bytes", False)


def test_allocations_of_a_cycle_do_not_go_on_in_the_next() -> None:
    (curve,) = [c for c in counters(Run(traces=(counted(), counted()))) if c.name == ALLOCATED]
    assert curve.value.tolist() == [100, 150, 50] * 2


def test_what_was_there_before_and_is_freed_does_not_make_a_curve_negative() -> None:
    builder = TraceBuilder()
    for moment, size in ((30, 100), (40, -300), (50, 100)):
        builder.op("[memory]", moment, 0, kind="memory", bytes=size, device="cuda:0")
    (curve,) = counters(Run(traces=(builder.build(),)))
    assert curve.value.tolist() == [300, 0, 100]


def test_the_unit_is_the_last_word_of_the_name() -> None:
    (curve, *_) = [counter for counter in counters(Run(traces=(counted(),))) if counter.hardware]
    assert curve.unit == "%"


def test_a_summary_has_what_the_hardware_did() -> None:
    hardware = up.summarize(counted()).hardware
    row = next(counter for counter in hardware if counter.name == "process CPU %")
    assert (row.mean, row.minimum, row.maximum, row.sample_count) == (75, 50, 100, 2)
    assert all(counter.name != ALLOCATED for counter in hardware)
