"""Waiting for data, recorded by TensorFlow itself: the waits that the analyses see are those of the program."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from unified_profiler.spi import NativeCapture
from unified_profiler_tensorflow import backend
from unified_profiler_tensorflow.read.normalizer import TensorFlowNormalizer

SECONDS, STEPS = 0.05, 8
PATTERN = re.compile(backend.abilities.event_conventions.data_loading or "", re.IGNORECASE)


class SlowData:
    """A dataset whose elements take a while, measured where it is spent; nothing is prepared in advance."""

    def __init__(self) -> None:
        self.spent_ns = 0
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False
        self.dataset = tf.data.Dataset.range(STEPS).map(self._element).with_options(options)

    def _element(self, number: Any) -> tuple[Any, Any]:
        image = tf.py_function(self._load, [number], tf.float32)
        return tf.ensure_shape(image, (16, 8)), tf.zeros((16, 1))

    def _load(self, _: Any) -> Any:
        start = time.perf_counter_ns()
        time.sleep(SECONDS)
        self.spent_ns += time.perf_counter_ns() - start
        return np.zeros((16, 8), np.float32)


def model(**options: Any) -> Any:
    net = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    net.compile("sgd", "mse", **options)
    return net


def fit(data: Any) -> None:
    model().fit(data, verbose=0, shuffle=False)


def fit_several_steps_at_once(data: Any) -> None:
    model(steps_per_execution=4).fit(data, verbose=0, shuffle=False)


def iterate_eagerly(data: Any) -> None:
    step = tf.function(model().train_step)
    for batch in data:
        step(batch)


def iterate_in_a_function(data: Any) -> None:
    weight = tf.Variable(0.0)

    @tf.function  # type: ignore[untyped-decorator]
    def train(batches: Any) -> Any:
        for images, _ in batches:
            weight.assign_add(tf.reduce_sum(images))
        return weight.read_value()

    train(data).numpy()


def record(program: Callable[[Any], None], folder: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the events of a program, and the nanoseconds that it waited by construction."""
    data = SlowData()
    with tf.profiler.experimental.Profile(str(folder)):
        program(data.dataset)
    (file,) = folder.rglob("*.xplane.pb")
    table = TensorFlowNormalizer().normalize(NativeCapture(backend="tensorflow", files=(file,)))
    events: list[dict[str, Any]] = table.to_pylist()
    return events, data.spent_ns


def loading(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the operators and regions that the analyses count as loading data."""
    return [e for e in events if e["kind"] in ("op", "region") and PATTERN.search(e["name"])]


def total_ns(events: list[dict[str, Any]]) -> int:
    """Return how long at least one of the events ran."""
    end = total = 0
    for start, duration in sorted((event["start_ns"], event["duration_ns"]) for event in events):
        total += max(0, start + duration - max(start, end))
        end = max(end, start + duration)
    return total


@pytest.mark.parametrize(
    "program", [fit, fit_several_steps_at_once, iterate_eagerly, iterate_in_a_function], ids=lambda p: p.__name__
)
def test_the_recorded_wait_is_that_of_the_program(program: Callable[[Any], None], tmp_path: Path) -> None:
    events, spent_ns = record(program, tmp_path)
    assert spent_ns >= STEPS * SECONDS * 1e9
    assert 1 <= total_ns(loading(events)) / spent_ns < 1.15


def test_each_wait_of_a_fit_is_one_operator_that_loads_data(tmp_path: Path) -> None:
    events, _ = record(fit, tmp_path)
    waits = [event for event in loading(events) if event["duration_ns"] > SECONDS * 0.9e9]
    assert len(waits) == STEPS
    assert {(event["kind"], event["name"], event["origin"]) for event in waits} == {
        ("op", "IteratorGetNext", "x:DataLoad")
    }
    starts = [event for event in events if event["name"] == "ExecutorState::ProcessAsync::Start"]
    assert {event["kind"] for event in starts} == {"runtime"}


def test_elements_prepared_in_advance_are_not_waited_for(tmp_path: Path) -> None:
    def compute_while_data_is_loaded(data: Any) -> None:
        for _ in data.prefetch(STEPS):
            time.sleep(3 * SECONDS)

    events, spent_ns = record(compute_while_data_is_loaded, tmp_path)
    assert total_ns(loading(events)) < spent_ns / 2
