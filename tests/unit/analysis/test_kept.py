from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import unified_profiler as up
from unified_profiler.analysis.ancestry import nearest
from unified_profiler.analysis.devices import pieces
from unified_profiler.analysis.kept import kept
from unified_profiler.model.nesting import Ints
from unified_profiler.model.storage import read_parquet, write_parquet
from unified_profiler.model.trace import Trace


@pytest.fixture
def counted() -> tuple[list[int], Callable[..., list[int]]]:
    """The numbers of rows that a function was called with, and the function."""
    calls: list[int] = []

    @kept
    def count(events: pa.Table, *, factor: int = 1) -> list[int]:
        calls.append(len(events))
        return [len(events) * factor]

    return calls, count


def test_a_result_is_computed_once_for_a_table(counted: tuple[list[int], Callable[..., list[int]]]) -> None:
    calls, count = counted
    first, second = pa.table({"a": [1, 2]}), pa.table({"a": [1, 2]})
    assert count(first) is count(first)
    assert count(second) is not count(first)
    assert calls == [2, 2]


def test_other_options_give_another_result(counted: tuple[list[int], Callable[..., list[int]]]) -> None:
    calls, count = counted
    table = pa.table({"a": [1, 2]})
    assert [count(table, factor=factor) for factor in (1, 3, 3)] == [[2], [6], [6]]
    assert calls == [2, 2]


def test_columns_of_a_trace_in_memory_share_a_result(
    make_trace: Callable[..., Trace], counted: tuple[list[int], Callable[..., list[int]]]
) -> None:
    (calls, count), trace = counted, _trace(make_trace)
    assert count(trace.columns(["name"])) is count(trace.columns(["id", "name"])) is count(trace.events)
    assert count(trace.columns(["name"]).slice(1)) == [1]
    assert calls == [2, 1]


def test_a_result_is_released_with_its_table() -> None:
    class Result:
        """A value that can be observed."""

    compute = kept(lambda events: Result())
    table = pa.table({"a": [1, 2]})
    observed = weakref.ref(compute(table))
    assert observed() is not None
    del table
    gc.collect()
    assert observed() is None


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of launches whose operators were looked for, of each time."""
    calls: list[int] = []

    def spy(start: Ints, **options: Any) -> Ints:
        calls.append(len(start))
        return nearest(start, **options)

    monkeypatch.setattr(pieces, "nearest", spy)
    return calls


def _trace(make_trace: Callable[..., Trace]) -> Trace:
    return make_trace(
        {"name": "cudaLaunchKernel", "kind": "runtime", "layer": "runtime", "at": (0, 1), "correlation_id": 1},
        {"name": "k", "kind": "kernel", "layer": "runtime", "device": "cuda:0", "at": (2, 3), "correlation_id": 1},
    )


def test_device_work_of_a_trace_in_memory_is_computed_once(
    make_trace: Callable[..., Trace], computed: list[int]
) -> None:
    trace = _trace(make_trace)
    assert len(up.launch_table(trace)) == len(up.kernel_table(trace)) == 1
    assert computed == [1]


def test_nothing_is_kept_of_a_trace_on_disk(
    make_trace: Callable[..., Trace], computed: list[int], tmp_path: Path
) -> None:
    write_parquet(_trace(make_trace), tmp_path / "trace.parquet")
    trace = read_parquet(tmp_path / "trace.parquet")
    assert len(up.launch_table(trace)) == len(up.kernel_table(trace)) == 1
    assert computed == [1, 1]
    assert trace.unread_file is not None
