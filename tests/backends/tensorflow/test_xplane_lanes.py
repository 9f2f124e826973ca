"""Threads and their lanes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from unified_profiler.model.assembly import assemble
from unified_profiler.model.nesting import FIRST_LANE, find_nesting
from unified_profiler.spi import NativeCapture
from unified_profiler_tensorflow.read.normalizer import TensorFlowNormalizer

Record = Callable[..., NativeCapture]


def events(capture: NativeCapture) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = TensorFlowNormalizer().normalize(capture).to_pylist()
    return rows


def operators(capture: NativeCapture) -> list[dict[str, Any]]:
    return [event for event in events(capture) if event["kind"] == "op"]


def test_the_thread_that_records_has_its_own_id(record: Record) -> None:
    matrix = tf.ones((2, 2))
    products = operators(record(lambda: tf.matmul(matrix, matrix)))
    assert {(event["pid"], event["tid"], event["name"]) for event in products} == {
        (os.getpid(), threading.get_native_id(), "MatMul")
    }


def on_two_threads(record: Record, *, end_before: bool) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """Record an operator on each of two threads, which end before recording does or after it."""
    matrix, ids, release = tf.ones((2, 2)), {}, threading.Event()
    worked = threading.Barrier(3)

    def work() -> None:
        tf.matmul(matrix, matrix)
        ids[threading.get_native_id()] = threading.current_thread().name
        worked.wait()
        release.wait()

    threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(2)]

    def finish() -> None:
        release.set()
        for thread in threads:
            thread.join()

    def run() -> None:
        for thread in threads:
            thread.start()
        worked.wait()
        if end_before:
            finish()

    products = operators(record(run))
    finish()
    return products, ids


def test_every_python_thread_has_its_own_id_and_name(record: Record) -> None:
    products, ids = on_two_threads(record, end_before=False)
    assert {event["tid"]: event["thread"] for event in products} == ids


def test_threads_that_ended_before_have_lanes_of_their_own(record: Record) -> None:
    products, ids = on_two_threads(record, end_before=True)
    lanes = {event["tid"] for event in products}
    assert len(lanes) == 2
    assert min(lanes) >= FIRST_LANE
    assert not lanes & ids.keys()


def test_a_loop_keeps_its_operators_on_their_threads(record: Record) -> None:
    @tf.function  # type: ignore[untyped-decorator]
    def powers(matrix: Any) -> Any:
        for _ in tf.range(20):
            matrix = tf.matmul(matrix, matrix) * 0.01
        return matrix

    matrix = tf.ones((8, 8))
    powers(matrix)
    table = TensorFlowNormalizer().normalize(record(lambda: powers(matrix)))
    nested = assemble([table])
    columns = (table.column("name"), table.column("tid"), nested.column("tid"))
    moved = {name for name, old, new in zip(*(c.to_pylist() for c in columns), strict=True) if old != new}
    assert moved <= {"ExecutorState::Process"}
    assert nested.column("name").to_pylist().count("MatMul") == 20


def test_every_lane_nests(record: Record) -> None:
    data = tf.data.Dataset.range(32).map(lambda x: x * 2, num_parallel_calls=2).batch(4).prefetch(2)
    table = assemble([TensorFlowNormalizer().normalize(record(lambda: list(data), with_stack=True))])
    start, duration, pid, tid = (table.column(n).to_numpy() for n in ("start_ns", "duration_ns", "pid", "tid"))
    assert np.array_equal(find_nesting(start, duration, pid, tid).tid, tid)


def test_operators_of_traced_sessions_are_not_repeated(record: Record, net: Any) -> None:
    capture = record(net.run, record_shapes=True)
    multiplied = [event for event in events(capture) if '"node":"multiply"' in (event["attributes"] or "")]
    kinds = [(event["name"], event["kind"], event["input_shapes"]) for event in multiplied if event["name"] == "MatMul"]
    assert sorted(kinds) == [("MatMul", "op", "[[4,8],[8,2]]"), ("MatMul", "runtime", "[[4,8],[8,2]]")]
