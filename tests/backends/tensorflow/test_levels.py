from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

import unified_profiler as up
from unified_profiler.integrations.keras import ProfilerCallback
from unified_profiler.integrations.tensorflow import profiled_session

Training = Callable[[up.Profiler], list[float]]


def by_keras(prof: up.Profiler) -> list[float]:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile(optimizer="sgd", loss="mse")
    with prof.region("data", meta="made up"):
        inputs, targets = np.ones((12, 4), np.float32), np.zeros((12, 2), np.float32)
    callback = ProfilerCallback(prof)
    history = model.fit(inputs, targets, batch_size=2, verbose=0, shuffle=False, callbacks=[callback])
    return [float(loss) for loss in history.history["loss"]]


def by_session(prof: up.Profiler) -> list[float]:
    v1, losses = tf.compat.v1, []
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        weight = v1.get_variable("weight", [4, 2], initializer=v1.ones_initializer())
        loss = tf.reduce_mean(tf.square(tf.ones([2, 4]) @ weight))
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        profiled_session(session, prof, graph="mlp")
        session.run(v1.global_variables_initializer())
        with prof.region("data", meta="made up"):
            pass
        for _ in range(6):
            losses.append(float(session.run([loss, train])[0]))
            prof.step()
    return losses


@pytest.mark.parametrize("train", [by_keras, by_session])
@pytest.mark.parametrize(
    ("level", "layers"), [("0", set()), ("1", {"application"}), ("2", {"application", "framework"})]
)
def test_the_level_decides_what_is_recorded_and_never_what_is_computed(
    train: Training, level: str, layers: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = train(up.Profiler(level=0))
    monkeypatch.setenv("UNIFIED_PROFILER_LEVEL", level)
    with up.Profiler(backend="tensorflow", strict=True) as prof:
        losses = train(prof)
    assert losses == pytest.approx(expected, rel=1e-6)
    assert len(prof.traces) == (1 if layers else 0)
    for trace in prof.traces:
        rows = trace.events.select(["layer", "kind", "name", "attributes", "step"]).to_pylist()
        assert {row["layer"] for row in rows} & {"application", "framework"} == layers
        assert [row["step"] for row in rows if row["kind"] == "step"][:6] == list(range(6))
        assert [row["attributes"] for row in rows if row["name"] == "data"] == ['{"meta": "made up"}']
