"""Trains a small model under several sets of profiler options and writes down what each of them recorded.

It runs as a script, so it imports the installed package and nothing of the tests. The first argument names the
training, the second the folder, the third holds the sets of options as a JSON array.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.feather as feather

import unified_profiler as up

Train = Callable[[up.Profiler, int], object]
"""Trains so many steps, and ends each of them with `Profiler.step`."""

ROWS, COLUMNS = 16, 32
CYCLE_STEPS = 4
"""One waits, one warms up, two are recorded."""


def main() -> None:
    """Train once for each set of options."""
    name, folder, given = sys.argv[1:]
    train = TRAININGS[name]()
    train(up.Profiler(level=0), CYCLE_STEPS)  # compiles, and makes the state of optimizers
    for number, options in enumerate(json.loads(given)):
        _record(train, Path(folder, str(number)), **options)


def _record(train: Train, folder: Path, *, repeat: int, kept: str, **options: Any) -> None:
    folder.mkdir(parents=True)
    if kept != "in memory":
        options |= {"output_dir": folder / "output", "keep_native": kept == "with native files"}
    plan = up.schedule(wait=1, warmup=1, active=2, repeat=repeat)
    with up.Profiler(schedule=plan, hardware_hz=0, **options) as prof:
        train(prof, CYCLE_STEPS * repeat + 1)
    for trace in prof.traces:
        up.write(trace, folder / f"{trace.info.cycle}.parquet")
    feather.write_feather(prof.run.steps, folder / "steps.feather")
    (folder / "failures.json").write_text(json.dumps([failure.model_dump() for failure in prof.failures]))


def _loop(step: Callable[[], object]) -> Train:
    def train(prof: up.Profiler, steps: int) -> None:
        for _ in range(steps):
            step()
            prof.step()

    return train


def _torch(*, compiled: bool) -> Train:
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(COLUMNS, COLUMNS), torch.nn.ReLU(), torch.nn.Linear(COLUMNS, 4))
    call: Any = torch.compile(model, backend="aot_eager") if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.ones(ROWS, COLUMNS), torch.zeros(ROWS, 4)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(call(x), y).backward()
        optimizer.step()

    return _loop(step)


def _keras() -> Train:
    import keras

    from unified_profiler.integrations.keras import ProfilerCallback

    layers = [keras.layers.Input((COLUMNS,)), keras.layers.Dense(COLUMNS, "relu"), keras.layers.Dense(4)]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse")

    def train(prof: up.Profiler, steps: int) -> None:
        x, y = np.ones((ROWS * steps, COLUMNS), np.float32), np.zeros((ROWS * steps, 4), np.float32)
        model.fit(x, y, batch_size=ROWS, callbacks=[ProfilerCallback(prof)], verbose=0)

    return train


def _tf_function() -> Train:
    import tensorflow as tf

    weights = tf.Variable(tf.ones((COLUMNS, 4)))
    x = tf.ones((ROWS, COLUMNS))

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(x, weights)))
        weights.assign_sub(0.01 * tape.gradient(loss, weights))
        return loss

    graph = tf.function(step)
    return _loop(lambda: graph().numpy())


def _tf_session() -> Train:
    import tensorflow as tf

    from unified_profiler.integrations.tensorflow import profiled_session

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = tf.ones((ROWS, COLUMNS))
        weights = v1.get_variable("weights", (COLUMNS, 4))
        step = v1.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_mean(tf.square(x @ weights)))
        initialize = v1.global_variables_initializer()
    session = v1.Session(graph=graph)
    session.run(initialize)

    def train(prof: up.Profiler, steps: int) -> None:
        profiled_session(session, prof, graph="linear")
        for _ in range(steps):
            session.run(step)
            prof.step()

    return train


def _mindspore(*, mode: str) -> Train:
    import mindspore as ms
    from mindspore import nn

    ms.set_context(mode=getattr(ms, mode), device_target="CPU")
    network = nn.SequentialCell(nn.Dense(COLUMNS, COLUMNS), nn.ReLU(), nn.Dense(COLUMNS, 4))
    cell = nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), nn.SGD(network.trainable_params(), 0.01))
    cell.set_train()
    x, y = ms.Tensor(np.ones((ROWS, COLUMNS), np.float32)), ms.Tensor(np.zeros((ROWS, 4), np.float32))
    return _loop(lambda: cell(x, y).asnumpy())


TRAININGS: dict[str, Callable[[], Train]] = {
    "torch-eager": lambda: _torch(compiled=False),
    "torch-compile": lambda: _torch(compiled=True),
    "keras-on-tensorflow": _keras,
    "keras-on-torch": _keras,
    "tf-function": _tf_function,
    "tf-session": _tf_session,
    "mindspore-pynative": lambda: _mindspore(mode="PYNATIVE_MODE"),
    "mindspore-graph": lambda: _mindspore(mode="GRAPH_MODE"),
}

if __name__ == "__main__":
    main()
