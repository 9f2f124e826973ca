from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import unified_profiler as up
from unified_profiler.errors import ConfigurationError
from unified_profiler.integrations.keras import ProfilerCallback
from unified_profiler.testing import FakeBackend

TWO_CYCLES = up.schedule(wait=2, warmup=1, active=2, repeat=2)
X, Y = np.ones((24, 8, 8, 1), "float32"), np.zeros((24, 2), "float32")


def cnn(**options: Any) -> keras.Model:
    layers = keras.layers
    model = keras.Sequential([layers.Input((8, 8, 1)), layers.Conv2D(2, 3), layers.Flatten(), layers.Dense(2)])
    model.compile("sgd", "mse", **options)
    return model


def callback(**options: Any) -> ProfilerCallback:
    return ProfilerCallback(backend=FakeBackend(), **options)


def fit(model: keras.Model, *callbacks: Any, **options: Any) -> Any:
    return model.fit(X, Y, batch_size=2, verbose=0, callbacks=list(callbacks), **options)


def recorded(profiler: up.Profiler) -> list[tuple[int | None, int | None, bool]]:
    return [(trace.info.first_step, trace.info.last_step, trace.info.complete) for trace in profiler.traces]


def names(profiler: up.Profiler, kind: str) -> list[str]:
    rows = [row for trace in profiler.traces for row in trace.events.select(["name", "kind"]).to_pylist()]
    return [row["name"] for row in rows if row["kind"] == kind]


MODES = [{}, {"run_eagerly": True}, {"jit_compile": True}, {"steps_per_execution": 2}]


@pytest.mark.parametrize("options", MODES, ids=str)
def test_the_scheduled_steps_of_a_fit_are_recorded_with_their_operators(options: dict[str, Any]) -> None:
    profiling = ProfilerCallback(backend="tensorflow", schedule=TWO_CYCLES, strict=True)
    fit(cnn(**options), profiling, epochs=2)
    assert recorded(profiling.profiler) == [(3, 4, True), (8, 9, True)]
    for trace in profiling.profiler.traces:
        rows = trace.events.select(["layer", "step"]).to_pylist()
        steps = {row["step"] for row in rows if row["layer"] == "framework"}
        assert steps - {None} == {trace.info.first_step, trace.info.last_step}


@pytest.mark.parametrize("options", MODES, ids=str)
def test_every_step_of_a_fit_holds_its_operators_when_native_files_are_kept(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    profiling = ProfilerCallback(
        backend="tensorflow", schedule=TWO_CYCLES, strict=True, output_dir=tmp_path, keep_native=True
    )
    fit(cnn(**options), profiling, epochs=2)
    for trace in profiling.profiler.traces:
        rows = [row for row in trace.events.to_pylist() if row["kind"] == "op" and row["op"] == "Conv"]
        counts = Counter(row["step"] for row in rows)
        assert counts.keys() == {trace.info.first_step, trace.info.last_step}
        assert len(set(counts.values())) == 1


def test_a_step_is_an_execution_and_says_so() -> None:
    profiling = callback()
    fit(cnn(steps_per_execution=2), profiling)
    assert (profiling.profiler.current_step, profiling.batches_per_step) == (6, 2)
    signal = profiling.profiler.step_signal
    assert signal is not None
    assert signal.name == "keras execution of 2 batches"


def test_the_training_gives_the_same_numbers_with_and_without() -> None:
    def losses(*callbacks: Any) -> Any:
        keras.utils.set_random_seed(0)
        return fit(cnn(), *callbacks, epochs=2, validation_split=0.5).history

    assert losses(callback(schedule=TWO_CYCLES)) == losses()


def test_validation_is_a_region_and_no_step() -> None:
    profiling = callback()
    fit(cnn(), profiling, epochs=2, validation_data=(X, Y), validation_batch_size=8)
    assert profiling.profiler.current_step == 24
    assert names(profiling.profiler, "region") == ["evaluate"] * 2


def test_by_epoch() -> None:
    profiling = callback(by="epoch", steps=(1, 2))
    fit(cnn(), profiling, epochs=5)
    assert recorded(profiling.profiler) == [(1, 2, True)]
    assert profiling.batches_per_step is None
    assert profiling.profiler.current_step == 5


@pytest.mark.parametrize(("by", "steps"), [("batch", 12), ("epoch", 1)])
def test_evaluate_and_predict_have_steps_of_their_own(by: Any, steps: int) -> None:
    model, profiling = cnn(), callback(by=by)
    model.evaluate(X, Y, batch_size=2, verbose=0, callbacks=[profiling])
    assert profiling.profiler.current_step == steps
    model.predict(X, batch_size=2, verbose=0, callbacks=[profiling])
    assert profiling.profiler.current_step == 2 * steps
    assert len(profiling.profiler.traces) == 2


class Raising(keras.callbacks.Callback):  # type: ignore[misc]
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if batch == 3:
            raise ZeroDivisionError


@pytest.mark.parametrize("again", ["fit", "evaluate"])
def test_a_fit_that_raised_is_delivered_incomplete_before_the_next_call(again: str) -> None:
    model, profiling = cnn(), callback(schedule=up.schedule(wait=1, warmup=1, active=2, repeat=1))
    with pytest.raises(ZeroDivisionError):
        fit(model, profiling, Raising())
    assert profiling.profiler.traces == ()
    getattr(model, again)(X, Y, batch_size=2, verbose=0, callbacks=[profiling])
    assert recorded(profiling.profiler) == [(2, 2, False), (5, 6, True)]


def test_a_fit_that_raised_in_the_users_own_block_ends_with_it() -> None:
    prof = up.Profiler(backend=FakeBackend())
    with pytest.raises(ZeroDivisionError), prof:
        fit(cnn(), ProfilerCallback(prof), Raising())
    assert [complete for _, _, complete in recorded(prof)] == [False]


def test_a_profiler_of_the_users_own_block_goes_on_after_the_fit() -> None:
    with up.Profiler(backend=FakeBackend()) as prof:
        fit(cnn(), ProfilerCallback(prof))
        prof.step()
    assert prof.current_step == 13


def test_the_callback_is_called_on_the_thread_that_trains() -> None:
    threads = set()

    class Noting(ProfilerCallback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            threads.add(threading.get_ident())
            super().on_train_batch_end(batch, logs)

    fit(cnn(), Noting(backend=FakeBackend()))
    assert threads == {threading.get_ident()}


def test_level_0_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = FakeBackend()
    monkeypatch.setenv("UNIFIED_PROFILER_LEVEL", "0")
    profiling = ProfilerCallback(backend=backend, steps=(1, 2))
    fit(cnn(), profiling)
    assert (backend.calls, profiling.profiler.current_step, profiling.profiler.step_signal) == ([], 0, None)


def test_what_a_step_is_must_be_known() -> None:
    with pytest.raises(ConfigurationError, match='"batch" or "epoch"; found \'step\''):
        callback(by="step")


# --- other kinds of Keras, each in a process of its own ------------------------------------------------------------

PROGRAM = """
import json, sys
from collections import Counter
{setup}
import numpy as np, unified_profiler as up
from unified_profiler.integrations.keras import ProfilerCallback
from unified_profiler_tensorflow.steps.hooks import STEP_HOOKS
fired = Counter()
def install(hook):
    name = hook.signal if hook.training else hook.signal + " in evaluation"
    hook.install(sys.modules[hook.module], lambda _: fired.update([name]))
for hook in STEP_HOOKS:
    if hook.module in sys.modules:
        install(hook)
x, y = np.ones((24, 8, 8, 1), "float32"), np.zeros((24, 2), "float32")
layers = keras.layers
model = keras.Sequential([layers.{input}((8, 8, 1)), layers.Conv2D(2, 3), layers.Flatten(), layers.Dense(2)])
model.compile("sgd", "mse")
profiling = ProfilerCallback(schedule=up.schedule(wait=2, warmup=1, active=2, repeat=2), strict=True)
model.fit(x, y, batch_size=2, verbose=0, callbacks=[profiling], validation_data=(x, y), {validation})
steps = profiling.profiler.current_step
model.evaluate(x, y, batch_size=2, verbose=0, callbacks=[profiling])
traces = profiling.profiler.traces
names = {{n for t in traces for n in t.events.column("name").to_pylist()}}
print(json.dumps({{
    "recorded": [[t.info.first_step, t.info.last_step, t.info.complete] for t in traces],
    "frameworks": sorted(traces[0].info.frameworks),
    "steps": [steps, profiling.profiler.current_step],
    "fired": {{name: fired[name] for name in fired if name.startswith("keras")}},
    "convolutions": sorted(n for n in names if "conv2d" in n.lower()),
}}))
"""


def in_another_process(tmp_path: Path, setup: str, **environment: str) -> dict[str, Any]:
    legacy = "tf_keras" in setup
    program = PROGRAM.format(
        setup=setup,
        input="InputLayer" if legacy else "Input",
        validation="" if "eager" in setup else "validation_batch_size=2",  # graph mode has the batch size of training
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


EXPECTED = {
    "recorded": [[3, 4, True], [8, 9, True], [15, 16, True], [20, 21, True]],
    "steps": [12, 24],
    "fired": {"keras": 12, "keras in evaluation": 24},
}


def test_keras_on_torch(tmp_path: Path) -> None:
    found = in_another_process(tmp_path, "import keras\nassert 'tensorflow' not in sys.modules", KERAS_BACKEND="torch")
    assert {key: found[key] for key in EXPECTED} == EXPECTED
    assert found["frameworks"] == ["torch"]
    assert "aten::conv2d" in found["convolutions"]


@pytest.mark.parametrize("graph_mode", [False, True])
def test_tf_keras(tmp_path: Path, graph_mode: bool) -> None:
    setup = "import tensorflow as tf, tf_keras as keras"
    found = in_another_process(
        tmp_path, setup + ("\ntf.compat.v1.disable_eager_execution()" if graph_mode else ""), TF_USE_LEGACY_KERAS="1"
    )
    assert {key: found[key] for key in EXPECTED} == EXPECTED
    assert found["frameworks"] == ["tensorflow"]
    assert found["convolutions"]
