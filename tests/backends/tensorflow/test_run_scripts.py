"""`unified-profiler run` on scripts of TensorFlow and Keras: their output and exit code, the steps found, the run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from unified_profiler.model.records import Manifest
from unified_profiler.model.run import Run, read_run

ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}


@dataclass
class Ran:
    """How a script under the launcher ended, and what it left."""

    code: int
    stdout: str
    stderr: str
    run: Run

    @property
    def manifest(self) -> Manifest:
        return self.run.manifests[0]

    @property
    def signal(self) -> tuple[str, int, int, tuple[str, ...]] | None:
        """Name, sources, steps and notes."""
        found = self.manifest.step_signal
        return None if found is None else (found.name, found.sources, self.manifest.step_count, found.switches)

    def steps_with(self, text: str, layer: str = "framework") -> set[int | None]:
        """The steps in which an operator of the framework, or an event of another layer, has this text in its name."""
        rows = [row for t in self.run.traces for row in t.events.select(["name", "layer", "step"]).to_pylist()]
        return {row["step"] for row in rows if row["layer"] == layer and text in row["name"]}


Launch = Callable[..., Ran]


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    def run(text: str, *options: str, **environment: str) -> Ran:
        (tmp_path / "script.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "unified_profiler", "run", *options, "script.py"],
            cwd=tmp_path,
            env={**ENVIRONMENT, **environment},
            capture_output=True,
            text=True,
            timeout=900,
        )
        print(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        (path,) = (tmp_path / "profile").iterdir()
        return Ran(done.returncode, done.stdout, done.stderr, read_run(path))

    return run


KERAS = """
import keras, numpy as np, sys
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(), "mse")
x, y = np.ones((16, 4), "float32"), np.zeros((16, 1), "float32")
print("losses", model.fit(x, y, batch_size=2, verbose=0, validation_data=(x, y)).history.keys())
"""


def test_a_keras_training(launch: Launch) -> None:
    ran = launch(KERAS)
    assert (ran.code, ran.manifest.failures) == (0, ())
    assert ran.stdout.startswith("losses dict_keys(['loss', 'val_loss'])\n\n")
    assert "MatMul" in ran.stdout
    assert ran.signal == ("keras", 1, 8, ())
    assert ran.steps_with("MatMul") == {2, 3, 4}
    assert "of 8 were recorded; each step was ended by keras" in ran.stderr


def test_a_validation_between_epochs_is_a_span_and_no_part_of_a_step(launch: Launch) -> None:
    ran = launch(KERAS.replace("batch_size=2", "batch_size=4, epochs=2"), "--no-table", "--profile-memory")
    assert ran.signal == ("keras", 1, 8, ())
    events = ran.run.traces[0].events.select(["name", "kind", "step"]).to_pylist()
    assert [row["step"] for row in events if row["kind"] == "region" and row["name"] == "evaluation"] == [None]
    multiplied = Counter(row["step"] for row in events if row["name"] == "MatMul")
    assert multiplied.pop(None) > 0  # in the validation
    assert ran.stderr.count("hint:") == ran.stderr.count("hint: profile_memory had no effect on tensorflow") == 1
    assert set(multiplied) == {2, 3, 4}
    assert len(set(multiplied.values())) == 1


def test_every_recorded_step_holds_its_operators_when_native_files_are_kept(launch: Launch) -> None:
    ran = launch(KERAS, "--keep-native", "--backend", "tensorflow")
    (trace,) = ran.run.traces
    rows = [row for row in trace.events.to_pylist() if row["kind"] == "op" and row["name"].endswith("MatMul")]
    counts = Counter(row["step"] for row in rows)
    assert counts.keys() == {row["step"] for row in trace.events.to_pylist() if row["kind"] == "step"}
    assert len(set(counts.values())) == 1


def test_api_calls_of_a_keras_training(launch: Launch) -> None:
    ran = launch(KERAS, "--api", "--with-modules")
    assert (ran.code, ran.manifest.failures, ran.signal) == (0, (), ("keras", 1, 8, ()))
    assert ran.steps_with("tf.function", "api") == {2, 3, 4}
    assert "tf.function" in ran.stdout


def test_keras_on_torch_is_told_by_keras_and_recorded_by_torch(launch: Launch) -> None:
    ran = launch(KERAS + "print('tensorflow' in sys.modules)\n", "--no-table", KERAS_BACKEND="torch")
    assert (ran.code, ran.manifest.failures) == (0, ())
    assert ran.stdout.endswith("\nFalse\n")
    assert ran.signal == ("keras", 1, 8, ())
    assert list(ran.run.traces[0].info.frameworks) == ["torch"]
    assert ran.steps_with("aten::") == {2, 3, 4}


SESSION = """
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
x = tf.placeholder(tf.float32, (2, 4))
w = tf.get_variable("w", (4, 1))
loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
train = tf.train.AdamOptimizer().minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for i in range(8):
        session.run([train, loss], {x: [[1.0] * 4] * 2})
        session.run(loss, {x: [[1.0] * 4] * 2})
print("done")
"""


def test_a_training_in_a_session(launch: Launch) -> None:
    ran = launch(SESSION, "--no-table")
    assert (ran.code, ran.stdout, ran.manifest.failures) == (0, "done\n", ())
    assert ran.signal == ("session", 1, 8, ())
    assert ran.steps_with("MatMul") == {2, 3, 4}
    assert ran.steps_with("ResourceApplyAdam") == {2, 3, 4}  # the run that ends a step is in it


FUNCTION = """
import tensorflow as tf
w = tf.Variable(tf.ones((4, 1)))
optimizer = tf.keras.optimizers.Adam()

@tf.function
def train(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])

for i in range(8):
    train(tf.ones((2, 4 if i != {wrong} else 5)))
"""


LOOPS = """
import keras, tensorflow as tf
model, optimizer = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)]), keras.optimizers.SGD()
def train(x):
    with tf.GradientTape() as tape: loss = tf.reduce_mean(model(x) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)
for i in range(7): train(tf.ones((2, 4)))
compiled = tf.function(train)
for i in range(9): compiled(tf.ones((2, 4)))
"""


def test_an_eager_loop_and_then_one_of_a_function(launch: Launch) -> None:
    ran = launch(LOOPS, "--no-table", KERAS_BACKEND="tensorflow")
    assert ran.signal == ("optimizer", 2, 16, ("after step 7: another source of function took over",))
    assert ran.steps_with("MatMul") == {2, 3, 4}


def test_a_loop_that_raises_in_the_window(launch: Launch) -> None:
    ran = launch(FUNCTION.format(wrong=4), "--no-table")
    assert ran.code == 1
    assert ran.stderr.count("Traceback") == 1
    assert "in <module>\n    train(tf.ones(" in ran.stderr
    assert "unified_profiler_tensorflow" not in ran.stderr
    assert ran.signal == ("function", 1, 4, ())
    assert {2, 3} <= ran.steps_with("MatMul")
    assert not ran.run.traces[0].info.complete


def test_a_script_that_profiles_itself_gets_its_own_results(launch: Launch, tmp_path: Path) -> None:
    text = FUNCTION.format(wrong=None).replace("for i", "tf.profiler.experimental.start('own')\nfor i")
    ran = launch(text + "tf.profiler.experimental.stop()\n", "--no-table")
    assert ran.code == 0
    assert ran.stderr.count("uses a native profiler itself") == 1
    assert [file.stat().st_size > 0 for file in (tmp_path / "own").rglob("*.xplane.pb")] == [True]
    assert len(ran.run.traces) == 1


def first_step_and_loop(ran: Ran) -> tuple[int, int, int]:
    """When the first step began and ended, and when the script came to its loop."""
    loop = next(line for line in ran.stdout.splitlines() if line.startswith("LOOP "))
    assert ran.run.steps is not None
    start, end = (ran.run.steps[name][0].as_py() for name in ("start_ns", "end_ns"))
    assert ran.manifest.start_up_ns == start - ran.manifest.started_ns
    return start, end, int(loop.split()[1])


def test_the_first_step_of_keras_begins_with_fit(launch: Launch) -> None:
    fit = "model.predict(x[:2], verbose=0)\nimport time; print('LOOP', time.time_ns())\nprint('losses'"
    start, end, loop = first_step_and_loop(launch(KERAS.replace("print('losses'", fit).replace('print("losses"', fit)))
    assert loop <= start < end


def test_the_first_step_of_a_loop_begins_with_its_function(launch: Launch) -> None:
    text = """
import tensorflow as tf, time
weights = tf.Variable(tf.ones((4, 1)))
optimizer = tf.keras.optimizers.SGD()
@tf.function
def train(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(x @ weights)
    optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
print("LOOP", time.time_ns())
for _ in range(8):
    train(tf.ones((2, 4)))
"""
    start, end, loop = first_step_and_loop(launch(text))
    assert loop <= start < end
