"""Calls of TensorFlow's and Keras's API, traced: each once, by its name, and nothing is another afterwards."""

from __future__ import annotations

import inspect
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FunctionType, ModuleType
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow import add as add_imported_before
from tensorflow.linalg import matmul as matmul_imported_before

import unified_profiler as up
from unified_profiler.model.api_names import PublicNames, public_names
from unified_profiler.recording.api.options import TraceOptions
from unified_profiler.recording.api.tracer import Tracer
from unified_profiler_tensorflow.api.surface import TensorFlowSurface
from unified_profiler_tensorflow.steps.hooks import STEP_HOOKS

Row = dict[str, Any]
Work = Callable[[], Any]


def begun(**options: Any) -> Tracer:
    tracer = Tracer(TraceOptions(**options), clock=time.time_ns)
    tracer.install("tensorflow", TensorFlowSurface())
    return tracer


@contextmanager
def traced(**options: Any) -> Iterator[Tracer]:
    tracer = begun(**options)
    try:
        yield tracer
    finally:
        tracer.stop()


def rows(tracer: Tracer, kind: str = "api_call") -> list[Row]:
    """What was recorded since the last time, in the order in which it began."""
    found = [row for row in tracer.take(0, time.time_ns()).to_pylist() if row["kind"] == kind]
    return sorted(found, key=lambda row: (row["start_ns"], -row["duration_ns"]))


def names(tracer: Tracer) -> list[str]:
    return [row["name"] for row in rows(tracer)]


def names_of(work: Work, **options: Any) -> list[str]:
    with traced(**options) as tracer:
        work()
    return names(tracer)


class Doubling(keras.layers.Layer):  # type: ignore[misc]
    """A layer of the user's, with one of Keras's in it."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.dense = keras.layers.Dense(2, name="inner")

    def call(self, inputs: Any) -> Any:
        return tf.nn.relu(self.dense(inputs)) * 2.0


class Squared(keras.losses.Loss):  # type: ignore[misc]
    """A loss of the user's."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return tf.reduce_mean(tf.square(y_true - y_pred), axis=-1)


X, Y = tf.reshape(tf.range(12.0), (3, 4)) + 1.0, tf.ones((3, 4))
SQUARE, WHOLE, IMAGE, TEXT = tf.eye(3) * 2.0, tf.range(6), tf.ones((1, 8, 8, 3)), tf.constant("a b")
KERNEL, RAGGED, VARIABLE = tf.ones((3, 3, 3, 2)), tf.ragged.constant([[1.0], [2.0, 3.0]]), tf.Variable(tf.ones((3, 4)))
ONE, BIAS = tf.constant(1.0), tf.ones((4,))
SPARSE, DATASET = tf.sparse.from_dense(SQUARE), tf.data.Dataset.range(3)
DENSE, LOSS, METRIC = keras.layers.Dense(2), keras.losses.MeanSquaredError(), keras.metrics.MeanSquaredError()
DENSE(X)
STATE = keras.Variable(np.ones(3), dtype="float32")
GENERATOR = tf.random.Generator.from_seed(1)


@tf.function  # type: ignore[untyped-decorator]
def compiled(matrix: Any) -> Any:
    return tf.matmul(matrix, matrix) + 1.0


compiled(SQUARE)
CONCRETE = compiled.get_concrete_function(SQUARE)

MODEL, OPTIMIZER = keras.Sequential([keras.layers.Dense(4), keras.layers.ReLU()]), keras.optimizers.SGD()


def train(inputs: Any) -> None:
    """A step of training by hand."""
    with tf.GradientTape() as tape:
        loss = LOSS(inputs, MODEL(inputs))
    gradients = tape.gradient(loss, MODEL.trainable_variables)
    OPTIMIZER.apply_gradients(zip(gradients, MODEL.trainable_variables, strict=True))


def nested() -> Any:
    layers = [keras.layers.Dense(4, name="first"), Doubling(name="doubling")]
    return keras.Sequential([keras.Sequential(layers, name="encoder"), keras.layers.Dense(2, name="head")])


train(X)

CALLS: list[tuple[str, Work]] = [
    ("tf.linalg.matmul", lambda: tf.matmul(SQUARE, SQUARE)),
    ("tf.linalg.matmul", lambda: tf.linalg.matmul(SQUARE, SQUARE)),
    ("tf.linalg.matmul", lambda: matmul_imported_before(SQUARE, SQUARE)),
    ("tf.linalg.matmul", lambda: tf.compat.v1.matmul(SQUARE, SQUARE)),
    ("tf.linalg.matmul", lambda: tf.compat.v1.linalg.matmul(SQUARE, SQUARE)),
    ("tf.math.add", lambda: tf.add(X, Y)),
    ("tf.math.add", lambda: tf.math.add(X, Y)),
    ("tf.math.add", lambda: add_imported_before(X, Y)),
    ("tf.math.add", lambda: tf.compat.v1.math.add(X, Y)),
    ("tf.math.negative", lambda: tf.negative(X)),
    ("tf.math.reduce_sum", lambda: tf.reduce_sum(X)),
    ("tf.math.log", lambda: tf.math.log(X)),
    ("tf.math.is_nan", lambda: tf.math.is_nan(X)),
    ("tf.nn.relu", lambda: tf.nn.relu(X)),
    ("tf.nn.softmax", lambda: tf.nn.softmax(X)),
    ("tf.nn.conv2d", lambda: tf.nn.conv2d(IMAGE, KERNEL, 1, "SAME")),
    ("tf.nn.bias_add", lambda: tf.nn.bias_add(X, BIAS)),
    ("tf.nn.moments", lambda: tf.nn.moments(X, [0])),
    ("tf.linalg.inv", lambda: tf.linalg.inv(SQUARE)),
    ("tf.norm", lambda: tf.norm(X)),
    ("tf.image.resize", lambda: tf.image.resize(IMAGE, (4, 4))),
    ("tf.image.flip_left_right", lambda: tf.image.flip_left_right(IMAGE)),
    ("tf.signal.rfft", lambda: tf.signal.rfft(X)),
    ("tf.strings.upper", lambda: tf.strings.upper(TEXT)),
    ("tf.sparse.to_dense", lambda: tf.sparse.to_dense(SPARSE)),
    ("tf.random.normal", lambda: tf.random.normal((2,))),
    ("tf.io.serialize_tensor", lambda: tf.io.serialize_tensor(X)),
    ("tf.raw_ops.Add", lambda: tf.raw_ops.Add(x=X, y=Y)),
    ("tf.experimental.numpy.sum", lambda: tf.experimental.numpy.sum(X)),
    ("tf.cast", lambda: tf.cast(X, tf.int32)),
    ("tf.concat", lambda: tf.concat([X, Y], 0)),
    ("tf.constant", lambda: tf.constant([1.0])),
    ("tf.convert_to_tensor", lambda: tf.convert_to_tensor(1.0)),
    ("tf.einsum", lambda: tf.einsum("ij,kj->ik", X, Y)),
    ("tf.one_hot", lambda: tf.one_hot(WHOLE, 6)),
    ("tf.where", lambda: tf.where([True, False])),
    ("tf.zeros", lambda: tf.zeros((2,))),
    ("tf.compat.v1.reduce_sum", lambda: tf.compat.v1.reduce_sum(X)),
    ("tf.Tensor.__add__", lambda: X + Y),
    ("tf.Tensor.__radd__", lambda: 1.0 + X),
    ("tf.Tensor.__matmul__", lambda: SQUARE @ SQUARE),
    ("tf.Tensor.__neg__", lambda: -X),
    ("tf.Tensor.__abs__", lambda: abs(X)),
    ("tf.Tensor.__getitem__", lambda: X[0]),
    ("tf.Tensor.__gt__", lambda: X > Y),
    ("tf.Tensor.__eq__", lambda: X == Y),
    ("tf.Tensor.__pow__", lambda: X**2.0),
    ("tf.Tensor.__bool__", lambda: bool(ONE)),
    ("tf.Tensor.numpy", X.numpy),
    ("tf.Variable", lambda: tf.Variable(1.0)),
    ("tf.Variable.assign", lambda: VARIABLE.assign(Y)),
    ("tf.Variable.assign_add", lambda: VARIABLE.assign_add(Y)),
    ("tf.Variable.read_value", VARIABLE.read_value),
    ("tf.Variable.__mul__", lambda: VARIABLE * 2.0),
    ("tf.Variable.__getitem__", lambda: VARIABLE[0]),
    ("tf.RaggedTensor.__add__", lambda: RAGGED + 1.0),
    ("tf.RaggedTensor.to_tensor", RAGGED.to_tensor),
    ("tf.random.Generator.normal", lambda: GENERATOR.normal((2,))),
    ("tf.data.Dataset.from_tensor_slices", lambda: tf.data.Dataset.from_tensor_slices([1, 2])),
    ("tf.data.Dataset.batch", lambda: DATASET.batch(2)),
    ("tf.function", lambda: compiled(SQUARE)),
    ("tf.types.experimental.ConcreteFunction", lambda: CONCRETE(SQUARE)),
    ("keras.ops.relu", lambda: keras.ops.relu(X)),
    ("keras.activations.gelu", lambda: keras.activations.gelu(X)),
    ("keras.losses.mean_squared_error", lambda: keras.losses.mean_squared_error(X, Y)),
    ("keras.random.normal", lambda: keras.random.normal((2,))),
    ("keras.initializers.GlorotUniform", lambda: keras.initializers.GlorotUniform()((2, 2))),
    ("keras.layers.Dense", lambda: DENSE(X)),
    ("keras.layers.ReLU", lambda: keras.layers.ReLU()(X)),
    ("keras.losses.MeanSquaredError", lambda: LOSS(X, Y)),
    ("keras.metrics.MeanSquaredError", lambda: METRIC(X, Y)),
    ("keras.metrics.MeanSquaredError.update_state", lambda: METRIC.update_state(X, Y)),
    ("keras.metrics.MeanSquaredError.result", METRIC.result),
    ("keras.Variable.assign", lambda: STATE.assign(np.zeros(3))),
    ("keras.Variable.__add__", lambda: STATE + 1.0),
]


@pytest.fixture(scope="module")
def recorded() -> list[list[str]]:
    """The names that each of the calls was recorded by, all under one tracer."""
    found = []
    with traced() as tracer:
        for _, call in CALLS:
            call()
            found.append(names(tracer))
    return found


@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda number: f"{number}-{CALLS[number][0]}")
def test_a_call_is_recorded_once_by_its_name_however_it_was_imported(number: int, recorded: list[list[str]]) -> None:
    assert recorded[number] == [CALLS[number][0]]


def test_what_is_recorded_is_among_the_names_that_patterns_are_checked_against() -> None:
    assert {name for name, _ in CALLS} <= set(TensorFlowSurface().names())


def test_most_of_the_public_api_is_traced() -> None:
    found = Counter(name.rpartition(".")[0] for name in set(TensorFlowSurface().names()))
    expected = {"tf": 110, "tf.math": 120, "tf.nn": 70, "tf.raw_ops": 1400, "tf.image": 55, "keras.ops": 320}
    assert {space: found[space] for space, number in expected.items() if found[space] < number} == {}


def test_what_sets_up_or_describes_is_left_out() -> None:
    def work() -> None:
        tf.executing_eagerly()
        tf.config.list_physical_devices()
        tf.nest.flatten([tf.is_tensor(X), X.shape, X.dtype, X.device, X.get_shape()])
        tf.function(lambda x: x)
        tf.custom_gradient(lambda x: x)
        with tf.name_scope("scope"), tf.device("cpu"), tf.init_scope(), tf.GradientTape():
            pass
        keras.tree.flatten([keras.config.floatx(), keras.losses.get("mse")])

    assert names_of(work) == []


def test_nothing_is_imported_by_looking_for_what_to_trace() -> None:
    before = set(sys.modules)
    assert names_of(lambda: None) == []
    assert {name for name in set(sys.modules) - before if name.startswith(("tensorflow", "keras", "tf_keras"))} == set()


# --- arguments ----------------------------------------------------------------------------------------------------


def test_arguments_are_told_in_a_few_words() -> None:
    def work() -> None:
        tf.matmul(X, Y, transpose_b=True)
        tf.reshape(X, tf.TensorShape([4, 3]))
        tf.cast(X, tf.int32)
        VARIABLE.assign(Y)
        tf.add(RAGGED, 1.0)
        keras.ops.add(STATE, 1)
        DENSE(X)
        compiled(SQUARE)
        tf.concat([X, Y], axis=0)
        tf.strings.upper(TEXT)

    with traced() as tracer:
        work()
    said = [json.loads(row["attributes"]) for row in rows(tracer)]
    tensor = "Tensor[3,4] float32 cpu:0"
    assert said == [
        {"args": [tensor, tensor], "kwargs": {"transpose_b": "True"}},
        {"args": [tensor, "[4,3]"]},
        {"args": [tensor, "int32"]},
        {"args": ["Variable[3,4] float32 cpu:0", tensor]},
        {"args": ["RaggedTensor[2,?] float32", "1.0"]},
        {"args": ["Variable[3] float32", "1"]},
        {"args": [tensor]},
        {"args": ["compiled", "Tensor[3,3] float32 cpu:0"]},
        {"args": [f"[{tensor}, {tensor}]"], "kwargs": {"axis": "0"}},
        {"args": ["Tensor[] string cpu:0"]},
    ]


def test_what_is_not_known_of_a_symbolic_tensor_is_told() -> None:
    def work(known: Any, unknown: Any) -> Any:
        tf.nn.relu(known)
        return tf.nn.relu(unknown)

    shapes = [tf.TensorSpec((None, 4)), tf.TensorSpec(None)]
    with traced() as tracer:
        tf.function(work, input_signature=shapes)(X, Y)
        keras.ops.relu(keras.Input((4,)))
    said = [json.loads(row["attributes"])["args"] for row in rows(tracer) if row["name"].endswith("relu")]
    assert said == [["Tensor[?,4] float32"], ["Tensor[...] float32"], ["KerasTensor[?,4] float32"]]


def test_without_arguments_nothing_is_told() -> None:
    with traced(arguments=False) as tracer:
        tf.add(X, Y)
    assert [row["attributes"] for row in rows(tracer)] == [None]


# --- who made a call ----------------------------------------------------------------------------------------------


def test_the_layers_of_a_model_are_inside_of_it_but_not_the_code_of_the_user() -> None:
    model = keras.Sequential([keras.layers.Dense(4), Doubling(), keras.layers.Dense(2)])
    model(X)
    assert names_of(lambda: model(X)) == ["keras.Sequential", "keras.layers.Dense", "tf.nn.relu", "tf.Tensor.__mul__"]


def test_the_call_of_a_layer_of_the_user_is_none_of_the_api() -> None:
    layer = Doubling()
    layer(X)
    assert names_of(lambda: layer(X)) == ["keras.layers.Dense", "tf.nn.relu", "tf.Tensor.__mul__"]


def test_a_functional_model_is_a_model() -> None:
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    assert names_of(lambda: model(X)) == ["keras.Model"]


def test_a_loss_of_the_user_is_called_by_the_class_it_is_made_from() -> None:
    found = names_of(lambda: Squared()(X, Y))
    assert found == ["keras.Loss", "tf.Tensor.__sub__", "tf.math.square", "tf.math.reduce_mean"]


@pytest.mark.parametrize("make", [keras.optimizers.SGD, keras.optimizers.Adam, keras.optimizers.AdamW])
def test_an_optimizer_is_one_call_by_its_class(make: Callable[[], Any]) -> None:
    weight, optimizer = keras.Variable(np.ones((3, 4))), make()

    def work() -> None:
        optimizer.apply_gradients([(X, weight)])
        optimizer.apply([X], [weight])

    name = f"keras.optimizers.{make.__name__}"
    assert names_of(work) == [f"{name}.apply_gradients", f"{name}.apply"]


def test_a_step_of_training_by_hand() -> None:
    assert names_of(lambda: train(X)) == [
        "keras.Sequential",
        "keras.losses.MeanSquaredError",
        "tf.GradientTape.gradient",
        "keras.optimizers.SGD.apply_gradients",
    ]


def test_a_jacobian_is_one_call() -> None:
    with tf.GradientTape() as tape:
        tape.watch(BIAS)
        squares = tf.square(BIAS)
    assert names_of(lambda: tape.jacobian(squares, BIAS)) == ["tf.GradientTape.jacobian"]


def test_a_dataset_is_seen_as_it_is_asked() -> None:
    found = names_of(lambda: [tf.square(number) for number in DATASET.map(lambda number: number * 2)])
    step = ["tf.data.Iterator.__next__", "tf.math.square"]
    assert found == [
        *("tf.data.Dataset.map", "tf.Tensor.__mul__", "tf.data.Dataset.__iter__"),
        *(step * 3),
        "tf.data.Iterator.__next__",
    ]


def test_fit_and_the_like_are_calls_of_the_model() -> None:
    model = keras.Sequential([keras.layers.Dense(4)])

    def work() -> None:
        model.compile("sgd", "mse")
        model.fit(X, Y, verbose=0)
        model.evaluate(X, Y, verbose=0)
        model.predict(X, verbose=0)
        model.train_on_batch(X, Y)

    asked = ("compile", "fit", "evaluate", "predict", "train_on_batch")
    assert names_of(work) == [f"keras.Model.{name}" for name in asked]


@pytest.mark.parametrize("autograph", [True, False])
def test_a_function_is_one_call_each_time_and_the_calls_that_build_its_graph_are_seen_once(autograph: bool) -> None:
    function = tf.function(lambda x: tf.nn.relu(x) + 1.0, autograph=autograph)

    def work() -> None:
        for _ in range(100):
            function(X)

    found = names_of(work)
    assert found[:3] == ["tf.function", "tf.nn.relu", "tf.Tensor.__add__"]
    assert found[3:] == ["tf.function"] * 99


def test_calls_inside_are_not_seen_unless_asked_for() -> None:
    def work() -> None:
        DENSE(X)
        tf.nn.moments(X, [0])

    assert names_of(work) == ["keras.layers.Dense", "tf.nn.moments"]
    inside = Counter(names_of(work, inside=True))
    for name in ("keras.layers.Dense", "keras.ops.matmul", "tf.linalg.matmul", "tf.nn.bias_add"):
        assert inside[name] == 1
    assert inside["tf.nn.moments"] == 1
    assert inside["tf.math.reduce_mean"] == 2


def test_only_what_is_wanted_is_recorded() -> None:
    with traced(include=("tf.math.*",), exclude=("tf.math.square",)) as tracer:
        tf.square(tf.add(X, Y)) + 1.0
    assert names(tracer) == ["tf.math.add"]


def test_a_call_that_fails_is_recorded_and_fails_as_ever() -> None:
    def message() -> str:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            tf.matmul(X, Y)
        return str(caught.value)

    expected = message()
    with traced() as tracer:
        assert message() == expected
        tf.add(X, Y)
    assert names(tracer) == ["tf.linalg.matmul", "tf.math.add"]


def test_waiting_for_accelerators_disturbs_nothing() -> None:
    with traced(synchronize=True) as tracer:
        tf.function(lambda x: tf.nn.relu(x) + 1.0)(X)
        train(X)
    assert names(tracer)[:2] == ["tf.function", "tf.nn.relu"]


# --- modules ------------------------------------------------------------------------------------------------------


def test_modules_have_paths_made_of_the_names_of_layers() -> None:
    model = nested()
    model(X)
    with traced(modules=True, calls=False) as tracer:
        model(X)
    found = [(row["name"], row["module"]) for row in rows(tracer, "module")]
    assert found == [
        ("Sequential", "Sequential"),
        ("Sequential", "encoder"),
        ("Dense", "encoder.first"),
        ("Doubling", "encoder.doubling"),
        ("Dense", "encoder.doubling.inner"),
        ("Dense", "head"),
    ]
    assert rows(tracer) == []


def test_a_module_encloses_what_it_calls() -> None:
    model = nested()
    model(X)
    with traced(modules=True, inside=True) as tracer:
        model(X)
    events = tracer.take(0, time.time_ns()).to_pylist()
    (head,) = [row for row in events if row["module"] == "head"]
    end = head["start_ns"] + head["duration_ns"]
    within = {row["name"] for row in events if head["start_ns"] <= row["start_ns"] < end}
    assert {"keras.layers.Dense", "tf.linalg.matmul"} <= within


# --- nothing is another -------------------------------------------------------------------------------------------


def everything() -> dict[Any, Any]:
    """The functions, methods and classes that all modules and classes hold, and what functions are made of."""
    found: dict[Any, Any] = {}
    for module in [module for name, module in list(sys.modules.items()) if is_framework(name)]:
        for name, value in list(vars(module).items()):
            if callable(value):
                found[id(module), name] = value
                note(value, found)
    return found


def is_framework(name: str) -> bool:
    return name.partition(".")[0] in {"tensorflow", "keras"}


def note(value: Any, found: dict[Any, Any]) -> None:
    while isinstance(value, FunctionType) and (id(value), "is") not in found:
        found |= {
            (id(value), "is"): value,
            (id(value), "code"): value.__code__,
            (id(value), "keys"): tuple(vars(value)),
        }
        found |= {(id(value), "held", name): held for name, held in vars(value).items()}
        value = vars(value).get("__wrapped__")
    if isinstance(value, type) and is_framework(str(value.__module__)) and (id(value), "is") not in found:
        methods = {name: held for name, held in vars(value).items() if hasattr(held, "__get__")}
        found |= {(id(value), "is"): value, (id(value), "keys"): tuple(sorted(methods))}
        found |= {(id(value), "held", name): held for name, held in methods.items()}
        for held in methods.values():
            note(getattr(held, "__func__", held), found)


def changes(before: dict[Any, Any]) -> list[Any]:
    after = everything()
    return [
        (place, value, after.get(place))
        for place, value in before.items()
        if not (after.get(place) == value if place[1] == "keys" else after.get(place) is value)
    ]


def plainly() -> None:
    with traced():
        work()


def nested_tracers() -> None:
    with traced(), traced(inside=True), traced(modules=True):
        work()


def again_and_again() -> None:
    for _ in range(3):
        plainly()


def with_an_exception() -> None:
    with suppress(ZeroDivisionError), traced():
        work()
        raise ZeroDivisionError


def on_two_threads() -> None:
    with traced() as tracer:
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = rows(tracer)
    assert len({row["tid"] for row in found}) == 2
    assert Counter(row["name"] for row in found)["tf.math.add"] == 2


def ended_in_another_order() -> None:
    first, second, third = begun(), begun(inside=True), begun()
    work()
    for tracer in (second, first, third):
        tracer.stop()
        work()
    seen_by_first, seen_by_third = names(first), names(third)
    assert seen_by_third[: len(seen_by_first)] == seen_by_first
    assert len(seen_by_third) == len(seen_by_first) * 3 / 2


def beside_hooks_for_steps() -> None:
    places = [(hook, sys.modules[hook.module]) for hook in STEP_HOOKS if hook.module in sys.modules]
    undo = [hook.install(module, lambda sender: None) for hook, module in places]
    tracer = begun()
    for one in reversed(undo):
        one()
    work()
    tracer.stop()
    assert Counter(names(tracer))["keras.layers.Dense"] == 1


def work() -> None:
    tf.add(X, Y)
    -(X @ tf.transpose(Y))
    DENSE(X)
    METRIC.update_state(X, Y)
    compiled(SQUARE)
    VARIABLE.assign(Y)


@pytest.mark.parametrize(
    "scenario",
    [
        *(plainly, nested_tracers, again_and_again, with_an_exception),
        *(on_two_threads, ended_in_another_order, beside_hooks_for_steps),
    ],
)
def test_afterwards_everything_is_the_identical_object(scenario: Work) -> None:
    plainly()  # what TensorFlow loads when it is first asked
    before = everything()
    assert len(before) > 100_000
    scenario()
    assert changes(before) == []


def test_what_was_kept_while_calls_were_traced_is_traced_no_longer() -> None:
    with traced() as tracer:
        kept = (-X).__neg__, tf.add, METRIC.update_state
        names(tracer)
    kept[0]()
    kept[1](X, Y)
    kept[2](X, Y)
    assert names(tracer) == []


# --- nothing behaves otherwise ------------------------------------------------------------------------------------


def signatures() -> dict[str, str]:
    found = {}
    for name, thing in (public_names("tensorflow").paths | public_names("keras").paths).items():
        if isinstance(thing, FunctionType):
            found[name] = str(inspect.signature(thing))
    return found


def test_signatures_are_as_ever() -> None:
    expected = signatures()
    with traced():
        found = signatures()
    assert len(found) > 3000
    assert found == expected


@pytest.mark.parametrize("package", ["tensorflow", "keras"])
def test_names_are_as_ever(package: str) -> None:
    expected = PublicNames(package).paths
    with traced():
        assert PublicNames(package).paths == expected


def test_a_tracer_that_begins_within_another_watches_the_same() -> None:
    with traced() as first, pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "a module that was imported meanwhile", ModuleType("meanwhile"))
        with traced() as second:
            work()
            abs(-X)
        tf.add(X, Y)
    found = names(second)
    assert found[-2:] == ["tf.Tensor.__neg__", "tf.Tensor.__abs__"]
    assert names(first) == [*found, "tf.math.add"]


@pytest.mark.parametrize("thing", [tf.matmul, tf.nn.relu, tf.cast, keras.ops.relu, keras.losses.mean_squared_error])
def test_functions_can_be_pickled_and_are_the_same(thing: Any) -> None:
    expected = pickle.dumps(thing)
    with traced():
        assert pickle.dumps(thing) == expected
        assert pickle.loads(expected) is thing  # noqa: S301  made here


def test_what_things_are_is_as_ever() -> None:
    with traced():
        assert isinstance(X + Y, tf.Tensor)
        assert isinstance(VARIABLE, tf.Variable)
        assert isinstance(keras.layers.Dense(2), keras.layers.Layer)
        assert tf.matmul is tf.linalg.matmul is matmul_imported_before
        assert callable(tf.add)
        assert tf.add.__name__ == "add"


@tf.function  # type: ignore[untyped-decorator]
def with_control_flow(x: Any) -> Any:
    total = tf.zeros_like(x)
    for number in tf.range(3):
        if tf.reduce_sum(x) > tf.cast(number, tf.float32):
            total += tf.math.square(x) * tf.cast(number, tf.float32)
        else:
            total -= x
    while tf.reduce_max(total) < 100.0:
        total = total * 2.0 + 1.0
    return total


def by_graph() -> Any:
    return [
        tf.function(with_control_flow.python_function)(X),
        tf.function(lambda x: tf.nn.softmax(tf.sin(x)), autograph=False)(X),
        tf.function(lambda x: tf.map_fn(lambda row: row * 2.0, x), jit_compile=False)(X),
        tf.function(lambda x: tf.cond(x[0, 0] > 0.0, lambda: x + 1.0, lambda: x - 1.0), jit_compile=True)(X),
        tf.function(tf.nn.relu)(X),
        tf.function(tf.matmul)(SQUARE, b=SQUARE),
        tf.vectorized_map(tf.math.square, X),
    ]


def by_gradients() -> Any:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(X)
        loss = tf.reduce_sum(tf.nn.gelu(X @ tf.transpose(Y)) * tf.norm(X)) + tf.reduce_sum(VARIABLE * X)
    return [tape.gradient(loss, X), tape.jacobian(tf.math.square(BIAS), BIAS), tape.gradient(loss, VARIABLE)]


def by_datasets() -> Any:
    data = tf.data.Dataset.from_tensor_slices(X).map(lambda row: tf.reduce_sum(row) * 2.0).batch(2)
    return [batch.numpy().tolist() for batch in data]


def by_fit(**options: Any) -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(8, activation="relu"), Doubling(), keras.layers.Dropout(0.5)])
    model.compile("adam", Squared(), metrics=["mae"], **options)
    history = model.fit(np.eye(8, dtype=np.float32), np.ones((8, 2)), epochs=2, batch_size=4, verbose=0)
    return [history.history["loss"], history.history["mae"], *model.get_weights()]


@pytest.mark.parametrize(
    "compute",
    [
        *(by_graph, by_gradients, by_datasets, by_fit),
        *(lambda: by_fit(run_eagerly=True), lambda: by_fit(jit_compile=True)),
    ],
    ids=["functions", "gradients", "datasets", "fit", "fit eagerly", "fit with XLA"],
)
@pytest.mark.parametrize("inside", [False, True])
def test_results_are_as_ever(compute: Work, inside: bool) -> None:
    expected = compute()
    with traced(inside=inside, modules=True):
        found = compute()
    after = compute()
    for one, other, last in zip(expected, found, after, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, last)


def test_a_function_that_was_built_while_calls_were_traced_works_on() -> None:
    with traced():
        built = tf.function(lambda x: tf.nn.relu(x) - 1.0)
        first = built(X)
    np.testing.assert_array_equal(built(X), first)
    np.testing.assert_array_equal(built(SQUARE), tf.nn.relu(SQUARE) - 1.0)


# --- nothing is missed --------------------------------------------------------------------------------------------

SLACK_NS = 20_000
"""How much the clocks of the native profiler and of Python may differ."""


def convolutional() -> tuple[Any, Any, Any]:
    layers = keras.layers
    model = keras.Sequential(
        [
            *(layers.Conv2D(4, 3, activation="relu"), layers.BatchNormalization(), layers.MaxPooling2D()),
            *(layers.Flatten(), layers.Dropout(0.5), layers.Dense(2)),
        ]
    )
    return model, keras.losses.MeanSquaredError(), keras.optimizers.Adam()


@pytest.mark.parametrize("graph", [False, True])
def test_every_operator_lies_within_a_call(graph: bool) -> None:
    model, loss, optimizer = convolutional()
    images, labels = tf.ones((4, 8, 8, 3)), tf.ones((4, 2))

    def step(images: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            found = loss(labels, model(tf.image.flip_left_right(images) * 0.5, training=True))
        gradients, _ = tf.clip_by_global_norm(tape.gradient(found, model.trainable_variables), 1.0)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    one_step = tf.function(step) if graph else step
    one_step(images, labels)
    with up.Profiler(backend="tensorflow", strict=True) as profiler:
        with traced() as tracer:
            one_step(images, labels)
        profiler.step()
    events = profiler.traces[0].events.to_pylist()
    kinds = {row["id"]: row["kind"] for row in events}
    top = [row for row in events if row["kind"] == "op" and kinds.get(row["parent_id"]) != "op"]
    calls = [(row["start_ns"] - SLACK_NS, row["start_ns"] + row["duration_ns"] + SLACK_NS) for row in rows(tracer)]
    assert len(top) > 30
    assert [
        row["name"]
        for row in top
        if not any(start <= row["start_ns"] <= row["start_ns"] + row["duration_ns"] <= end for start, end in calls)
    ] == []


# --- other processes ----------------------------------------------------------------------------------------------


def codes() -> list[Any]:
    held = [tf.matmul, tf.add, tf.nn.relu, keras.ops.relu, keras.layers.Layer.__call__, keras.losses.Loss.__call__]
    return [thing.__code__.co_consts for thing in held] + [tf.Tensor.__neg__]


def _tell(connection: Any, expected: list[Any]) -> None:
    connection.send(codes() == expected)


def test_a_child_of_a_fork_has_everything_back() -> None:
    expected = codes()
    with traced(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forks of processes with threads
        assert codes() != expected
        child = os.fork()
        if child == 0:
            os._exit(0 if codes() == expected else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert codes() != expected
        tf.add(X, Y)


def test_a_process_of_multiprocessing_has_everything_back() -> None:
    expected = codes()
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    with traced(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process = context.Process(target=_tell, args=(sending, expected))
        process.start()
        assert receiving.poll(60)
        assert receiving.recv()
        process.join()


OF_TF_KERAS = """
import time
import tensorflow as tf, tf_keras
from unified_profiler.recording.api.tracer import Tracer
from unified_profiler.recording.api.options import TraceOptions
from unified_profiler_tensorflow.api.surface import TensorFlowSurface

class Doubling(tf_keras.layers.Layer):
    def call(self, inputs):
        return tf.nn.relu(inputs) * 2.0

x, model = tf.ones((4, 3)), tf_keras.Sequential([tf_keras.layers.Dense(4), Doubling()])
loss, optimizer = tf_keras.losses.MeanSquaredError(), tf_keras.optimizers.SGD()
model(x)
tracer = Tracer(TraceOptions(modules=True), clock=time.time_ns)
tracer.install("tensorflow", TensorFlowSurface())
with tf.GradientTape() as tape:
    value = loss(x[:, :1], model(x))
gradients = tape.gradient(value, model.trainable_variables)
optimizer.apply_gradients(zip(gradients, model.trainable_variables))
tracer.stop()
events = sorted(tracer.take(0, time.time_ns()).to_pylist(), key=lambda row: (row["start_ns"], row["kind"] != "module"))
print(*(row["module"] or row["name"] for row in events))
"""


def test_tf_keras_is_seen_as_well() -> None:
    done = subprocess.run([sys.executable, "-c", OF_TF_KERAS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        *("tf.Tensor.__getitem__", "Sequential", "tf_keras.Sequential", "dense", "doubling"),
        *("tf.nn.relu", "tf.Tensor.__mul__", "tf_keras.losses.MeanSquaredError"),
        *("tf.GradientTape.gradient", "tf_keras.optimizers.SGD.apply_gradients"),
    ]
