"""Whatever goes wrong in profiling, the training gives the same losses, and what was recorded is delivered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.profiler import profiler_v2
from tensorflow.python.profiler.internal import _pywrap_profiler

import unified_profiler as up
from unified_profiler.model.trace import Trace

SCHEDULE = up.schedule(wait=1, warmup=1, active=2, repeat=2)
BATCHES = 9


class Batches(keras.callbacks.Callback):  # type: ignore[misc]  # keras is not typed for mypy here
    """Keeps the loss of each batch, and calls a function after it."""

    def __init__(self, then: Callable[[], object]) -> None:
        super().__init__()
        self.losses: list[float] = []
        self._then = then

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.losses.append(logs["loss"])
        self._then()


def fit(then: Callable[[], object] = lambda: None, *callbacks: Any) -> list[float]:
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.layers.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    batches = Batches(then)
    inputs = np.random.default_rng(0).normal(size=(4 * BATCHES, 8)).astype(np.float32)
    model.fit(inputs, inputs[:, :1], batch_size=4, verbose=0, shuffle=False, callbacks=[*callbacks, batches])
    return batches.losses


@pytest.fixture(scope="module")
def expected() -> list[float]:
    return fit()


def profiled(output_dir: Path, *callbacks: Any, **options: Any) -> tuple[list[float], up.Profiler]:
    prof = up.Profiler(schedule=SCHEDULE, output_dir=output_dir, backend="tensorflow", **options)
    with prof:
        losses = fit(prof.step, *callbacks)
    return losses, prof


def op_steps(trace: Trace) -> set[int]:
    rows = trace.events.select(["kind", "step"]).to_pylist()
    return {row["step"] for row in rows if row["kind"] == "op"} - {None}  # the input pipeline works between steps, too


def test_profiling_does_not_change_the_losses(expected: list[float], tmp_path: Path) -> None:
    losses, prof = profiled(tmp_path)
    assert losses == expected
    assert prof.failures == ()
    assert [op_steps(trace) for trace in prof.traces] == [{2, 3}, {6, 7}]


def test_only_the_recorded_steps_of_a_session_have_nodes(net: Any, tmp_path: Path) -> None:
    filled = []
    with up.Profiler(schedule=SCHEDULE, output_dir=tmp_path, backend="tensorflow", strict=True) as prof:
        for _ in range(BATCHES):
            metadata = tf.compat.v1.RunMetadata()
            net.run(run_metadata=metadata)
            filled.append(len(metadata.step_stats.dev_stats) > 0)
            prof.step()
    assert [step for step, has_nodes in enumerate(filled) if has_nodes] == [2, 3, 6, 7]
    assert [op_steps(trace) for trace in prof.traces] == [{2, 3}, {6, 7}]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_fit_that_raises(error: type[BaseException], tmp_path: Path) -> None:
    prof = up.Profiler(output_dir=tmp_path, backend="tensorflow", schedule=up.schedule(wait=1, warmup=0, active=9))
    batches = iter(range(BATCHES))

    def step() -> None:
        if next(batches) == 3:
            msg = "in batch 3"
            raise error(msg)
        prof.step()

    with pytest.raises(error, match="in batch 3"), prof:
        fit(step)
    (trace,) = up.read(tmp_path).traces
    assert not trace.info.complete
    assert op_steps(trace) == {1, 2, 3}
    assert profiler_v2._profiler is None


@pytest.mark.parametrize("verb", ["start", "export_to_tb"])
def test_a_native_profiler_that_raises(
    verb: str, expected: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        msg = f"{verb} is broken"
        raise RuntimeError(msg)

    with monkeypatch.context() as patch:
        patch.setattr(_pywrap_profiler.ProfilerSession, verb, broken)
        losses, prof = profiled(tmp_path / "broken")
    assert losses == expected
    assert len(prof.failures) == 2
    assert f"{verb} is broken" in prof.failures[0].error
    _, later = profiled(tmp_path / "later")
    assert later.failures == ()


def test_tensorboard_that_profiles_already_is_left_alone(expected: list[float], tmp_path: Path) -> None:
    board = keras.callbacks.TensorBoard(str(tmp_path / "board"), profile_batch=(1, BATCHES))
    losses, prof = profiled(tmp_path / "ours", board)
    assert losses == expected
    assert [failure.error.split(":")[0] for failure in prof.failures] == ["BackendBusyError"] * 2
    assert list((tmp_path / "board").rglob("*.xplane.pb"))


def test_tensorboard_that_wants_to_profile_while_we_record(expected: list[float], tmp_path: Path) -> None:
    board = keras.callbacks.TensorBoard(str(tmp_path / "board"), profile_batch=(4, 4))
    losses, prof = profiled(tmp_path / "ours", board)
    assert losses == expected
    assert [(failure.action, failure.error.split(":")[0]) for failure in prof.failures] == [
        ("stop", "BackendBusyError")
    ]
    assert [op_steps(trace) for trace in prof.traces] == [set(), {6, 7}]
    assert list((tmp_path / "board").rglob("*.xplane.pb"))


def test_tensorboard_that_profiles_between_two_cycles(expected: list[float], tmp_path: Path) -> None:
    board = keras.callbacks.TensorBoard(str(tmp_path / "board"), profile_batch=(6, 6))
    losses, prof = profiled(tmp_path / "ours", board)
    assert losses == expected
    assert prof.failures == ()
    assert [op_steps(trace) for trace in prof.traces] == [{2, 3}, {6, 7}]
    assert list((tmp_path / "board").rglob("*.xplane.pb"))


def test_two_profilers_at_once(expected: list[float], tmp_path: Path) -> None:
    first = up.Profiler(output_dir=tmp_path / "first", backend="tensorflow")
    with first:
        losses, second = profiled(tmp_path / "second")
    assert losses == expected
    assert first.failures == ()
    assert {failure.error.split(":")[0] for failure in second.failures} == {"BackendBusyError"}
    assert op_steps(first.traces[0])
    assert [trace.info.first_step for trace in second.traces] == [2, 6]


def test_two_threads_that_call_step(tmp_path: Path) -> None:
    together = threading.Barrier(2)
    lock = threading.Lock()

    def train(mark: Callable[[], object]) -> list[list[float]]:
        losses: list[list[float]] = [[], []]

        def work(index: int) -> None:
            weight = tf.Variable(tf.ones((4, 4)))
            together.wait()
            for _ in range(20):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(tf.matmul(weight, weight))
                weight.assign_sub(0.001 * tape.gradient(loss, weight))
                losses[index].append(float(loss))
                with lock:
                    mark()

        threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return losses

    expected = train(lambda: None)
    schedule = up.schedule(wait=1, warmup=1, active=2)
    with up.Profiler(schedule=schedule, output_dir=tmp_path, backend="tensorflow", keep_native=True) as prof:
        assert train(prof.step) == expected
    assert prof.failures == ()
    assert all("op" in trace.events.column("kind").to_pylist() for trace in prof.traces)
