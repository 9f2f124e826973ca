"""The hooks that tell steps in TensorFlow and Keras: how often each fires per kind of loop, and what is chosen."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from unified_profiler.launch.detector import Detector, Signal
from unified_profiler.spi import HookRole, StepHook
from unified_profiler_tensorflow.steps.functions import OPTIMIZERS
from unified_profiler_tensorflow.steps.hooks import STEP_HOOKS

STEPS = 6
BEGINNINGS = (HookRole.LOOP_BEGIN, HookRole.CALL_BEGIN)
X, Y = np.ones((STEPS * 2, 4), "float32"), np.zeros((STEPS * 2, 1), "float32")
BATCH = tf.ones((2, 4))


class Fires:
    """All hooks installed: how often each signal fired, and which steps the detector makes of it."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.sources: dict[str, set[int]] = {}
        self.began: list[str] = []
        """What may begin the first step, in the order in which it began."""
        self.detector = Detector()
        self._undo: list[Callable[[], None]] = []

    def install(self, *hooks: StepHook) -> None:
        for hook in hooks:
            if "tf_keras" not in hook.module:  # another process: see test_run_scripts
                self._undo.append(hook.install(import_module(hook.module), partial(self._fired, hook)))

    def remove(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _fired(self, hook: StepHook, source: int) -> None:
        name = name_of(hook)
        if hook.role in BEGINNINGS:
            self.began.append(name)
            return
        self.counts[name] = self.counts.get(name, 0) + 1
        self.sources.setdefault(name, set()).add(source)
        if hook.role is HookRole.STEPS_EXPECTED:
            self.detector.expect_better()
        elif hook.role is HookRole.STEP_END:
            self.detector.feed(Signal(name=hook.signal, priority=hook.priority, training=hook.training), source)

    @property
    def found(self) -> tuple[str, int, tuple[str, ...]]:
        """The signal that was chosen, the steps it told, and what there is to say about it."""
        result = self.detector.result()
        assert result is not None
        return result.name, self.detector.steps, result.switches

    def of_steps(self) -> dict[str, int]:
        return {name: count for name, count in self.counts.items() if name != "optimizer made"}


def name_of(hook: StepHook) -> str:
    if not hook.training:
        return f"{hook.signal} in evaluation"
    return f"{hook.signal} by gradient" if (hook.signal, hook.priority) == ("function", 1) else hook.signal


@pytest.fixture
def fires() -> Iterator[Fires]:
    fires = Fires()
    fires.install(*STEP_HOOKS)
    yield fires
    fires.remove()


def compiled(**options: Any) -> keras.Model:
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", **options)
    return model


def fit(model: keras.Model, **options: Any) -> None:
    model.fit(X, Y, batch_size=2, verbose=0, **options)


class Loop:
    """A hand-written training, by parts."""

    def __init__(self, optimizer: Any = "sgd") -> None:
        self.weights = tf.Variable(tf.ones((4, 1)))
        self.optimizer = keras.optimizers.SGD(0.01) if optimizer == "sgd" else optimizer

    def gradient(self, x: Any = BATCH) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ self.weights))
        return tape.gradient(loss, self.weights)

    def update(self, gradient: Any) -> None:
        self.optimizer.apply_gradients([(gradient, self.weights)])

    def step(self, x: Any = BATCH) -> None:
        self.update(self.gradient(x))

    def evaluate(self) -> Any:
        return tf.reduce_mean(BATCH @ self.weights)


def times(*calls: Callable[[], object], steps: int = STEPS) -> None:
    for _ in range(steps):
        for call in calls:
            call()


# --- Keras's own loops --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}, {"jit_compile": True}], ids=str)
def test_fit_tells_each_batch_and_nothing_within_it_counts(fires: Fires, options: dict[str, bool]) -> None:
    fit(compiled(**options), epochs=2)
    assert fires.found == ("keras", 2 * STEPS, ())
    assert {"optimizer", "function"}.isdisjoint(fires.counts)


def test_steps_per_execution_makes_a_step_of_several_batches(fires: Fires) -> None:
    fit(compiled(steps_per_execution=3))
    assert fires.found == ("keras", STEPS // 3, ())


def test_validation_in_fit_is_no_step(fires: Fires) -> None:
    fit(compiled(), validation_data=(X, Y), validation_batch_size=2)
    assert fires.counts["keras in evaluation"] == STEPS
    assert fires.found == ("keras", STEPS, ())


def test_several_fits_are_one_source(fires: Fires) -> None:
    model = compiled()
    times(lambda: fit(model), steps=3)
    assert fires.found == ("keras", 3 * STEPS, ())


def test_evaluate_and_predict_tell_steps_if_nothing_trains(fires: Fires) -> None:
    model = compiled()
    model.evaluate(X, Y, batch_size=2, verbose=0)
    model.predict(X, batch_size=2, verbose=0)
    assert fires.counts["keras in evaluation"] == 2 * STEPS
    assert fires.found[:2] == ("keras", 2 * STEPS)


def test_a_strategy_and_a_train_step_of_ones_own(fires: Fires) -> None:
    class Own(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.dense(x)

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(x) - y))
            variables = self.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return {"loss": loss}

    with tf.distribute.MirroredStrategy(["cpu:0"]).scope():
        model = Own()
        model.compile("sgd", "mse")
    fit(model)
    assert fires.found == ("keras", STEPS, ())


def test_a_fit_that_raised_does_not_spoil_the_loop_after_it(fires: Fires) -> None:
    model = compiled()
    with pytest.raises(ValueError):  # noqa: PT011  whatever Keras says about the shape
        model.fit(np.ones((4, 3)), Y[:4], verbose=0)
    times(tf.function(Loop().step))
    assert fires.found == ("function", STEPS, ())


def test_a_loop_before_a_fit_gives_way_to_it(fires: Fires) -> None:
    times(tf.function(Loop().step))
    fit(compiled())
    name, steps, switches = fires.found
    assert (name, steps) == ("keras", 2 * STEPS)
    assert switches == ("after step 6: function gave way to keras",)


def test_batches_trained_one_by_one(fires: Fires) -> None:
    model = compiled()
    times(lambda: model.train_on_batch(X[:2], Y[:2]))
    assert fires.found == ("function", STEPS, ())


# --- loops written by hand ----------------------------------------------------------------------------------------


class Method(Loop):
    @tf.function  # type: ignore[untyped-decorator]
    def step(self, x: Any = BATCH) -> None:
        super().step(x)


def method() -> Callable[[], None]:
    loop = Method()

    def step() -> None:
        loop.step()  # the function itself would not keep the object alive

    return step


def retracing() -> Callable[[], None]:
    loop, lengths = Loop(), iter(range(1, 99))
    step = tf.function(loop.step)
    return lambda: step(tf.ones((next(lengths), 4)))


def in_a_strategy() -> Callable[[], None]:
    strategy = tf.distribute.MirroredStrategy(["cpu:0"])
    with strategy.scope():
        loop = Loop()
    return tf.function(lambda: strategy.run(loop.step))  # type: ignore[no-any-return]


def concrete() -> Callable[[], None]:
    return partial(tf.function(Loop().step).get_concrete_function(), BATCH)


FUNCTIONS: dict[str, Callable[[], Callable[[], None]]] = {
    "plain": lambda: tf.function(Loop().step),
    "compiled by XLA": lambda: tf.function(Loop().step, jit_compile=True),
    "a method": method,
    "traced anew in each step": retracing,
    "in a strategy": in_a_strategy,
    "an optimizer of tf.compat.v1": lambda: tf.function(Loop(tf.compat.v1.train.AdamOptimizer()).step),
    "concrete": concrete,
}


@pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_a_function_that_applies_an_optimizer(fires: Fires, make: Callable[[], Callable[[], None]]) -> None:
    times(make())
    assert fires.of_steps() == {"function": STEPS}
    assert fires.found == ("function", STEPS, ())


def test_a_function_that_trains_is_told_from_one_that_evaluates(fires: Fires) -> None:
    loop = Loop()
    times(tf.function(loop.step), tf.function(loop.evaluate))
    assert fires.of_steps() == {"function": STEPS, "function in evaluation": STEPS}
    assert fires.found == ("function", STEPS, ())


def test_two_functions_that_train_are_two_sources_and_the_last_ends_the_step(fires: Fires) -> None:
    times(tf.function(Loop().step), tf.function(Loop().step))
    assert len(fires.sources["function"]) == 2
    assert fires.found == ("function", STEPS, ())


@pytest.mark.parametrize("v1", [False, True])
def test_an_eager_loop_ends_steps_at_the_optimizer(fires: Fires, v1: bool) -> None:
    times(Loop(tf.compat.v1.train.GradientDescentOptimizer(0.1) if v1 else "sgd").step)
    assert fires.of_steps() == {"backward": STEPS, "optimizer": STEPS}
    assert fires.found == ("optimizer", STEPS, ())


def test_gradients_in_a_function_and_an_eager_update(fires: Fires) -> None:
    loop = Loop()
    gradient = tf.function(loop.gradient)
    times(lambda: loop.update(gradient()))
    assert fires.of_steps() == {"function by gradient": STEPS, "optimizer": STEPS}
    assert fires.found == ("optimizer", STEPS, ())


def test_gradients_collected_over_many_batches_before_an_update(fires: Fires) -> None:
    loop = Loop()
    gradient = tf.function(loop.gradient)
    times(*[gradient] * 9, lambda: loop.update(gradient()))
    assert fires.found == ("optimizer", STEPS, ())


def test_a_function_without_an_optimizer_trains_if_it_takes_a_gradient(fires: Fires) -> None:
    loop = Loop(optimizer=None)
    step = tf.function(lambda: loop.weights.assign_sub(loop.gradient()))
    times(step, tf.function(loop.evaluate))
    assert fires.of_steps() == {"function by gradient": STEPS, "function in evaluation": STEPS}
    assert fires.found[:2] == ("function", STEPS)


def test_an_eager_loop_without_an_optimizer_ends_steps_at_the_gradient(fires: Fires) -> None:
    loop = Loop(optimizer=None)
    times(lambda: loop.weights.assign_sub(loop.gradient()))
    assert fires.of_steps() == {"backward": STEPS}
    assert fires.found[:2] == ("backward", STEPS)


def test_functions_run_eagerly_end_steps_at_the_optimizer(fires: Fires) -> None:
    tf.config.run_functions_eagerly(True)
    try:
        times(tf.function(Loop().step))
    finally:
        tf.config.run_functions_eagerly(False)
    assert fires.found == ("optimizer", STEPS, ())


def test_a_function_that_raises_does_not_spoil_the_later_ones(fires: Fires) -> None:
    @tf.function  # type: ignore[untyped-decorator]
    def check(x: Any) -> Any:
        tf.debugging.assert_positive(x)
        return x

    for _ in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError):
            check(tf.constant(-1.0))
    check(tf.constant(1.0))
    assert fires.of_steps() == {"function in evaluation": 1}


def test_a_saved_model_that_serves(fires: Fires, tmp_path: Path) -> None:
    module = tf.Module()
    module.f = tf.function(lambda x: x * 2, input_signature=[tf.TensorSpec((2,))])
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.f})
    loaded = tf.saved_model.load(str(tmp_path))
    fires.counts.clear()
    times(lambda: loaded.signatures["serving_default"](x=tf.ones(2)))
    assert fires.counts == {"function in evaluation": STEPS}
    fires.counts.clear()
    times(lambda: loaded.f(tf.ones(2)))
    assert fires.counts == {"function in evaluation": STEPS}


def test_functions_called_by_the_input_pipeline_are_no_steps(fires: Fires) -> None:
    double = tf.function(lambda x: x * 2)
    assert len(list(tf.data.Dataset.range(5).map(double))) == 5
    assert fires.counts == {}


def test_an_optimizer_that_the_script_makes_announces_training(fires: Fires) -> None:
    keras.optimizers.Adam()
    tf.compat.v1.train.AdamOptimizer()
    assert fires.counts == {"optimizer made": 2}


def test_an_optimizer_that_keras_makes_for_itself_announces_nothing(fires: Fires, tmp_path: Path) -> None:
    compiled().save(tmp_path / "model.keras")
    keras.models.load_model(tmp_path / "model.keras")
    assert "optimizer made" not in fires.counts


def test_calls_of_a_model_tell_steps_if_nothing_else_does(fires: Fires) -> None:
    model = compiled()
    times(lambda: model(BATCH))
    assert fires.counts == {"forward in evaluation": STEPS}
    assert fires.found[:2] == ("forward", STEPS)


def test_two_losses_are_two_sources_of_backward(fires: Fires) -> None:
    loop = Loop(optimizer=None)

    def step() -> None:
        loop.gradient()
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loop.weights)
        tape.gradient(loss, loop.weights)

    times(step)
    assert (len(fires.sources["backward"]), fires.found[:2]) == (2, ("backward", STEPS))


def test_threads_do_not_disturb_each_other(fires: Fires) -> None:
    steps = [tf.function(Loop().step) for _ in range(2)]
    for step in steps:
        step()
    threads = [threading.Thread(target=times, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fires.of_steps() == {"function": 2 * STEPS + 2}


# --- sessions -----------------------------------------------------------------------------------------------------


class Graph:
    """A training in a graph of its own."""

    def __init__(self, optimizer: Any = "sgd", *, resource: bool = True) -> None:
        v1 = tf.compat.v1
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = v1.placeholder(tf.float32, (None, 4), name="x")
            weights = v1.get_variable("w", (4, 1), use_resource=resource)
            self.loss = tf.reduce_mean(tf.square(self.x @ weights), name="loss")
            v1.train.get_or_create_global_step()
            if optimizer is None:
                self.train = v1.assign_sub(weights, v1.gradients(self.loss, weights)[0])
            else:
                sgd = v1.train.GradientDescentOptimizer(0.1)
                self.train = (sgd if optimizer == "sgd" else optimizer).minimize(self.loss)
            self.init = v1.global_variables_initializer()

    def session(self) -> Any:
        session = tf.compat.v1.Session(graph=self.graph)
        session.run(self.init)
        return session

    @property
    def feed(self) -> dict[Any, Any]:
        return {self.x: X[:2]}


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("name", ["GradientDescentOptimizer", "AdamOptimizer"])
def test_runs_that_train_are_told_from_others(fires: Fires, name: str, resource: bool) -> None:
    arguments = {"learning_rate": 0.1}
    graph = Graph(getattr(tf.compat.v1.train, name)(**arguments), resource=resource)
    with graph.session() as session:
        times(
            lambda: session.run({"loss": graph.loss, "step": [graph.train]}, graph.feed),
            lambda: session.run("loss:0", graph.feed),
        )
    assert fires.of_steps() == {"session": STEPS, "session in evaluation": STEPS + 1}
    assert fires.found == ("session", STEPS, ())


def test_run_and_eval_of_operations_are_runs(fires: Fires) -> None:
    graph = Graph()
    with graph.session():
        times(lambda: graph.train.run(graph.feed), lambda: graph.loss.eval(graph.feed))
    assert fires.of_steps() == {"session": STEPS, "session in evaluation": STEPS + 1}


def test_an_update_written_by_hand_ends_steps_if_nothing_better_comes(fires: Fires) -> None:
    graph = Graph(optimizer=None)
    with graph.session() as session:
        times(lambda: session.run([graph.train, graph.loss], graph.feed), steps=10)
    assert fires.found[:2] == ("session", 10)


def test_a_monitored_session(fires: Fires) -> None:
    graph = Graph()
    with graph.graph.as_default(), tf.compat.v1.train.MonitoredTrainingSession() as session:
        times(lambda: session.run(graph.train, graph.feed))
    assert fires.found == ("session", STEPS, ())


def test_a_step_ends_after_whoever_wrapped_the_run_has_seen_it(fires: Fires, monkeypatch: pytest.MonkeyPatch) -> None:
    base = import_module("tensorflow.python.client.session").BaseSession
    original, order = base.run, []

    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        order.append(fires.counts.get("session", 0))
        return result

    graph = Graph()
    with graph.session() as session:
        monkeypatch.setattr(base, "run", recorded)
        session.run(graph.train, graph.feed)
    assert (order, fires.counts["session"]) == ([0], 1)


def test_a_run_that_raises_ends_no_step(fires: Fires) -> None:
    graph = Graph()
    with graph.session() as session:
        fires.counts.clear()
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(graph.train)
    assert fires.counts == {}


# --- the script's own profiling; nothing remains ------------------------------------------------------------------


def test_the_scripts_own_profiling_is_announced(fires: Fires, tmp_path: Path) -> None:
    tf.profiler.experimental.start(str(tmp_path))
    tf.profiler.experimental.stop(save=False)
    with tf.profiler.experimental.Profile(str(tmp_path)):
        pass
    keras.callbacks.TensorBoard(str(tmp_path), profile_batch=2)
    assert fires.counts["profiler"] >= 2


def places() -> list[object]:
    module = import_module
    session = module("tensorflow.python.client.session")
    callbacks = vars(module("keras.src.callbacks.callback_list").CallbackList)
    functions = "tensorflow.python.eager.polymorphic_function"
    optimizers = [
        vars(getattr(module(name), owner)) for name, (owner, _) in OPTIMIZERS.items() if "tf_keras" not in name
    ]
    return [
        *(callbacks[f"on_{mode}_batch_end"] for mode in ("train", "test", "predict")),
        vars(module(f"{functions}.polymorphic_function").Function)["__call__"],
        vars(module(f"{functions}.concrete_function").ConcreteFunction)["__call__"],
        *(members["__init__"] for members in optimizers),
        *(members.get("apply") or members["apply_gradients"] for members in optimizers),
        vars(tf.GradientTape)["gradient"],
        vars(keras.layers.Layer)["__call__"],
        *(vars(owner).get("run", "inherited") for owner in (session.Session, session.InteractiveSession)),
        tf.profiler.experimental.start,
        module("tensorflow.python.profiler.profiler_v2").start,
    ]


def test_undoing_restores_the_identical_objects() -> None:
    before = places()
    fires = Fires()
    fires.install(*STEP_HOOKS)
    assert all(now is not then for now, then in zip(places(), before, strict=True))
    fires.remove()
    assert all(now is then for now, then in zip(places(), before, strict=True))


def test_a_wrapper_that_somebody_put_over_ours_is_left_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    fires = Fires()
    fires.install(next(hook for hook in STEP_HOOKS if hook.signal == "backward"))
    theirs = partial(tf.GradientTape.gradient)
    monkeypatch.setattr(tf.GradientTape, "gradient", theirs)
    fires.remove()
    assert tf.GradientTape.gradient is theirs


def test_hooks_keep_nothing_alive(fires: Fires) -> None:
    model, step, graph = compiled(), tf.function(Loop().step), Graph()
    fit(model)
    times(step)
    with graph.session() as session:
        session.run(graph.train, graph.feed)
    kept = [weakref.ref(thing) for thing in (model, step, graph.graph)]
    del model, step, graph, session
    keras.backend.clear_session()
    gc.collect()
    assert [reference() for reference in kept] == [None] * 3


def test_the_training_gives_the_same_numbers() -> None:
    def weights() -> list[Any]:
        keras.utils.set_random_seed(0)
        model = compiled()
        fit(model)
        loop = Loop()
        times(tf.function(loop.step))
        return [*model.get_weights(), loop.weights.numpy()]

    plain = weights()
    fires = Fires()
    fires.install(*STEP_HOOKS)
    hooked = weights()
    fires.remove()
    assert all(np.array_equal(a, b) for a, b in zip(hooked, plain, strict=True))


# --- where the first step may begin --------------------------------------------------------------------------------


def test_trainings_and_evaluations_of_keras_begin_loops(fires: Fires) -> None:
    model = compiled()
    model.predict(X, verbose=0)
    fit(model)
    loops = [name for name in fires.began if name in {"fit", "evaluation in evaluation"}]
    assert loops == ["evaluation in evaluation", "fit"]


def test_calls_of_functions_and_tapes_begin_before_they_end_a_step(fires: Fires) -> None:
    loop = Loop()
    tf.function(loop.evaluate)()
    assert (fires.began, fires.of_steps()) == (["call"], {"function in evaluation": 1})
    loop.step()
    assert fires.began == ["call", "tape"]


def test_a_layer_begins_a_call_where_it_gets_data(fires: Fires) -> None:
    layer = keras.layers.Dense(1)
    keras.Sequential([keras.layers.Input((4,)), layer])
    assert fires.began == []
    layer(X)
    assert fires.began == ["call in evaluation"]


def test_runs_of_sessions_begin(fires: Fires) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        session.run(tf.constant(1))
    assert fires.began == ["call"]
