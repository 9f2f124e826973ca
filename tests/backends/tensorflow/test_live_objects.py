from __future__ import annotations

import gc
import json
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from unified_profiler.errors import TraceFormatError
from unified_profiler.spi import NativeCapture
from unified_profiler_tensorflow.canonical.assignment import Canonical, lookup
from unified_profiler_tensorflow.canonical.live_names import LiveNames
from unified_profiler_tensorflow.read.live_objects import NAME, TAPE, UNSURE
from unified_profiler_tensorflow.read.normalizer import TensorFlowNormalizer
from unified_profiler_tensorflow.record import live_graphs
from unified_profiler_tensorflow.record.live_collector import collect_live_objects
from unified_profiler_tensorflow.record.live_graphs import graphs_that_ran

from .conftest import Net, Record

Row = dict[str, Any]
INPUTS = tf.ones((2, 3))


def operators(capture: NativeCapture) -> list[Row]:
    """The operators with a path, as rows; `node` is the path."""
    table = TensorFlowNormalizer().normalize(capture)
    chosen = [row for row in table.to_pylist() if row["kind"] == "op"]
    rows = [row | {"node": json.loads(row["attributes"] or "{}").get("node")} for row in chosen]
    return [row for row in rows if row["node"]]


def meanings(rows: list[Row], scope: str) -> set[tuple[str | None, str | None]]:
    """Origin and direction of the operators below a scope, however TensorFlow numbered it."""
    return {(row["origin"], row["direction"]) for row in rows if re.search(rf"(^|/){scope}(_\d+)*/", row["node"])}


class HalfStep(keras.optimizers.Optimizer):  # type: ignore[misc]
    """An optimizer of a user's own."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        self.assign_sub(variable, gradient * keras.ops.cast(learning_rate, variable.dtype) / 2)


class Gate(keras.layers.Layer):  # type: ignore[misc]
    """A layer of a user's own, which computes by itself."""

    def call(self, inputs: Any) -> Any:
        return tf.nn.softmax(inputs) * inputs


class Attention(keras.layers.Layer):  # type: ignore[misc]
    """Called like one of Keras, but none of them."""

    def call(self, inputs: Any) -> Any:
        return inputs @ tf.transpose(inputs)


class Wide(keras.layers.Dense):  # type: ignore[misc]
    """A layer of Keras with a class of a user's own."""


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """The operators of a model that is fitted, with names of the user's own for everything."""
    layers = keras.layers
    inner = keras.Sequential([layers.Dense(8, activation="relu", name="low"), Wide(8, name="high")], name="tower")
    images = keras.Input((8, 8, 3))
    x = layers.Conv2D(4, 3, name="stem")(images)
    x = layers.BatchNormalization(name="evened")(x)
    x = layers.TimeDistributed(layers.Dense(4), name="each")(layers.Reshape((9, 16), name="flat")(x))
    x = layers.MultiHeadAttention(2, 4, name="looking")(x, x)
    x = layers.LSTM(8, name="memory")(x)
    model = keras.Model(images, layers.Dense(3, name="head")(Gate(name="gate")(inner(x))), name="user_model")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, name="wrong")
    model.compile(keras.optimizers.RMSprop(name="descent"), loss, metrics=["accuracy"])
    data = np.ones((4, 8, 8, 3), np.float32), np.zeros(4, np.int64)
    model.train_on_batch(*data)
    recorder = _recorder(tmp_path_factory.mktemp("fitted"))
    model.train_on_batch(*data)
    return operators(recorder.stop())


def _recorder(folder: Path, **options: Any) -> Any:
    from unified_profiler.spi import RecordOptions
    from unified_profiler_tensorflow.record.recorder import TensorFlowRecorder

    recorder = TensorFlowRecorder(RecordOptions(**options), folder)
    recorder.arm()
    recorder.start()
    return recorder


@pytest.mark.parametrize(
    ("scope", "origin"),
    [
        *(("stem", "Conv"), ("evened", "BatchNormalization"), ("memory", "LSTM"), ("each", "Gemm"), ("head", "Gemm")),
        *(("high", "Gemm"), ("query", "Gemm"), ("attention_output", "Gemm")),
    ],
)
def test_layers_are_known_by_the_names_of_their_user(fitted: list[Row], scope: str, origin: str) -> None:
    assert meanings(fitted, scope) == {(origin, "forward"), (origin, "backward")}


def test_an_activation_within_a_named_layer_is_told_apart(fitted: list[Row]) -> None:
    assert ("Relu", "backward") in meanings(fitted, "low")


def test_the_optimizer_and_the_loss_are_known_by_the_names_of_their_user(fitted: list[Row]) -> None:
    assert meanings(fitted, "descent") == {("x:Optimizer", "update")}
    assert {origin for origin, _ in meanings(fitted, "compile_loss/wrong")} == {"SoftmaxCrossEntropyLoss"}


def test_modules_are_whole_paths_of_layers(fitted: list[Row]) -> None:
    modules = {row["module"] for row in fitted if row["module"] and row["direction"] != "update"}
    expected = {"user_model", "user_model/tower/low", "user_model/looking/query", "user_model/gate"}
    assert expected - {"user_model"} <= {"/".join(part.removesuffix("_1") for part in m.split("/")) for m in modules}


def test_nodes_of_metrics_have_no_scope_and_are_known(fitted: list[Row]) -> None:
    metrics = {row["name"] for row in fitted if row["origin"] == "x:Metric"}
    assert {"ArgMax", "Equal", "DivNoNan"} <= metrics


def test_the_gradient_in_a_layer_of_a_user_is_that_of_its_operator(fitted: list[Row]) -> None:
    softmax = {row["name"] for row in fitted if "gate" in row["node"] and row["origin"] == "Softmax"}
    assert {"Sum", "Mul"} <= softmax - {"Softmax", "_MklSoftmax"}


OPTIMIZERS: list[tuple[Callable[[], Any], str, str]] = [
    (keras.optimizers.RMSprop, "rm_sprop", "x:Optimizer"),
    (keras.optimizers.AdamW, "adam_w", "Adam"),
    (lambda: keras.optimizers.Adam(name="step_down"), "step_down", "Adam"),
    (lambda: keras.optimizers.SGD(name="step_along"), "step_along", "Momentum"),
    (lambda: HalfStep(0.1, name="half"), "half", "x:Optimizer"),
    (lambda: tf_keras.optimizers.Adam(name="older"), "older", "Adam"),
    (lambda: tf_keras.optimizers.legacy.SGD(name="oldest"), "oldest", "Momentum"),
]


@pytest.mark.parametrize(("make", "name", "origin"), OPTIMIZERS)
def test_the_optimizer_of_a_loop_of_a_user(make: Callable[[], Any], name: str, origin: str, record: Record) -> None:
    layer, optimizer = keras.layers.Dense(2, name="only_one"), make()
    layer.build((2, 3))
    variables = [variable.value for variable in layer.trainable_variables] if "tf_" in repr(type(optimizer)) else None

    @tf.function  # type: ignore[untyped-decorator]
    def step(inputs: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(inputs) ** 2)
        trained = variables or layer.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, trained), trained, strict=True))

    step(INPUTS)
    rows = operators(record(lambda: step(INPUTS)))
    assert meanings(rows, name) == {(origin, "update")}
    assert ("Gemm", "forward") in meanings(rows, "only_one")


def test_the_gradient_of_an_embedding_is_one_although_the_optimizer_adds_it_up(record: Record) -> None:
    words, optimizer = keras.layers.Embedding(5, 3), keras.optimizers.Adam(name="reader")
    words.build()

    @tf.function  # type: ignore[untyped-decorator]
    def step(sentence: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(words(sentence) ** 2)
        gradients = tape.gradient(loss, words.trainable_variables)
        optimizer.apply_gradients(zip(gradients, words.trainable_variables, strict=True))

    step(tf.constant([1, 2, 1]))
    rows = operators(record(lambda: step(tf.constant([1, 2, 1]))))
    summed = {(row["origin"], row["direction"]) for row in rows if row["name"] == "UnsortedSegmentSum"}
    assert summed == {("Gather", "backward")}
    assert ("Adam", "update") in meanings(rows, "reader")


@pytest.mark.parametrize("function", [keras.activations.silu, tf.nn.silu])
def test_a_gradient_that_is_written_for_a_function_is_no_forward_work(
    function: Callable[[Any], Any], record: Record
) -> None:
    """Its nodes stand at the root, beside those of the forward: silu has such a gradient."""
    weights = tf.Variable(tf.ones((3, 3)))

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(function(INPUTS @ weights))
        return tape.gradient(loss, weights)

    step()
    rows = operators(record(step))
    root = [row for row in rows if "/" not in row["node"].rpartition("PartitionedCall/")[2]]
    written = [row for row in root if row["name"] in {"Sub", "Mul", "AddV2"}]
    assert len(written) >= 3
    # graphs of other tests that are still alive may have nodes of the same names that are no gradients
    assert {(row["origin"], row["direction"]) for row in written} <= {(None, "backward"), (None, None)}


def test_a_node_that_is_a_gradients_in_one_graph_only_is_told_by_nothing() -> None:
    assert lookup("mul_1", "Mul", LiveNames(roots={"mul_1": TAPE})) == Canonical("Mul", None, "backward")
    assert lookup("mul_1", "Mul", LiveNames(roots={"mul_1": UNSURE})) == Canonical("Mul", None, None)
    assert lookup("mul_1", "Mul", LiveNames()) == Canonical("Mul", "Mul", "forward")


def test_a_name_of_two_classes_stands_for_none(record: Record) -> None:
    layer, other = keras.layers.Dense(2, name="shared_name"), keras.layers.Conv2D(2, 1, name="shared_name")
    step = tf.function(layer)
    step(INPUTS)
    rows = operators(record(lambda: step(INPUTS)))
    assert meanings(rows, "shared_name") == {(None, "forward")}
    assert {row["module"] for row in rows if "shared_name_1/" in row["node"]} == {"shared_name_1"}
    assert other.name == layer.name


def test_a_class_of_the_user_is_not_taken_for_one_of_keras(record: Record) -> None:
    layer = Attention()
    step = tf.function(lambda: layer(tf.ones((2, 3))))
    step()
    assert "Attention" not in {row["origin"] for row in operators(record(step))}


def test_layers_of_tf_keras(record: Record) -> None:
    layers = tf_keras.layers
    model = tf_keras.Sequential([layers.Dense(4, name="upper", input_shape=(3,)), layers.Dense(1, name="lower")])
    model.compile(tf_keras.optimizers.Adam(name="mover"), "mse", metrics=["mae"])
    data = np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)
    model.train_on_batch(*data)
    rows = operators(record(lambda: model.train_on_batch(*data)))
    assert meanings(rows, "upper") == {("Gemm", "forward"), ("Gemm", "backward")}
    assert meanings(rows, "mover") == {("Adam", "update")}
    assert {row["name"] for row in rows if row["origin"] == "x:Metric"} >= {"Abs", "DivNoNan"}


def test_the_optimizer_of_a_session(net: Net, record: Record) -> None:
    v1 = tf.compat.v1
    with net.session.graph.as_default():
        optimizer = v1.train.AdamOptimizer(0.1, name="goer")
        train = optimizer.minimize(net.loss)
        net.session.run(v1.global_variables_initializer())
    rows = operators(record(lambda: net.run(train)))
    assert optimizer.get_name() == "goer"
    assert meanings(rows, "goer") == {("Adam", "update")}


def test_a_loop_over_a_dataset_is_training_not_input(record: Record) -> None:
    layer, optimizer = keras.layers.Dense(2, name="looped"), keras.optimizers.SGD(name="looper")
    layer.build((2, 3))
    optimizer.build(layer.trainable_variables)
    dataset = tf.data.Dataset.from_tensor_slices(np.ones((4, 3), np.float32)).batch(2)

    @tf.function  # type: ignore[untyped-decorator]
    def train() -> None:
        for inputs in dataset:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.exp(layer(inputs)))
            gradients = tape.gradient(loss, layer.trainable_variables)
            optimizer.apply_gradients(zip(gradients, layer.trainable_variables, strict=True))

    train()
    rows = operators(record(train))
    assert meanings(rows, "looper") == {("Momentum", "update")}
    assert meanings(rows, "looped") == {("Gemm", "forward"), ("Gemm", "backward")}
    assert {(row["op"], row["origin"], row["direction"]) for row in rows if row["node"] == "Exp"} == {
        ("Exp", None, None)
    }


COLUMNS = ["name", "op", "origin", "direction", "module", "flops"]


def test_native_files_read_again_tell_the_same(record: Record, tmp_path: Path) -> None:
    layer, optimizer = keras.layers.Dense(2, name="kept"), keras.optimizers.SGD(name="keeper")

    @tf.function  # type: ignore[untyped-decorator]
    def step(inputs: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(inputs) ** 2)
        gradients = tape.gradient(loss, layer.trainable_variables)
        optimizer.apply_gradients(zip(gradients, layer.trainable_variables, strict=True))

    layer.build((2, 3))
    step(INPUTS)
    capture = record(lambda: step(INPUTS), with_flops=True)
    recorded = TensorFlowNormalizer().normalize(capture).select(COLUMNS)
    for path in (tmp_path, capture.files[0]):
        again = TensorFlowNormalizer().normalize(NativeCapture(backend="tensorflow", files=(path,)))
        assert again.select(COLUMNS).equals(recorded)
    assert "Momentum" in set(recorded.column("origin").to_pylist())
    assert recorded.column("flops").null_count < len(recorded)


def test_without_the_note_the_default_names_tell_what_they_can(record: Record, tmp_path: Path) -> None:
    layer = keras.layers.Dense(2, name="unknown_one")
    step = tf.function(lambda: layer(tf.ones((2, 3))))
    step()
    capture = record(step)
    (tmp_path / NAME).unlink()
    assert "Gemm" not in {row["origin"] for row in operators(capture) if row["name"] == "ReadVariableOp"}


def test_a_damaged_note_is_told(record: Record, tmp_path: Path) -> None:
    capture = record(tf.function(lambda: tf.ones(2) + 1))
    (tmp_path / NAME).write_text('{"names": {"a"')
    with pytest.raises(TraceFormatError, match=NAME):
        TensorFlowNormalizer().normalize(capture)


def test_a_note_of_another_recording_is_not_read(record: Record, tmp_path: Path) -> None:
    capture = record(tf.function(lambda: tf.ones(2) + 1))
    (tmp_path / NAME).rename(tmp_path / "xplane" / NAME)
    (tmp_path / "xplane" / NAME).write_text("damaged, but somebody else's")
    assert TensorFlowNormalizer().normalize(capture).num_rows > 0


def test_nothing_is_kept_alive(record: Record) -> None:
    layer, optimizer = keras.layers.Dense(2, name="mortal"), keras.optimizers.Adam(name="mortal_too")
    layer.build((2, 3))
    dying = [weakref.ref(layer), weakref.ref(optimizer)]
    capture = record(lambda: tf.ones(2) + 1)
    del layer, optimizer
    gc.collect()
    assert [ref() for ref in dying] == [None, None]
    assert capture.files


class _Unhashable(type):
    __hash__ = None  # type: ignore[assignment]

    def __eq__(cls, other: object) -> bool:
        raise AssertionError


class _Hostile(metaclass=_Unhashable):
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        msg = "asked for its class"
        raise AssertionError(msg)


class _Lazy(keras.layers.Layer):  # type: ignore[misc]
    """A layer that knows its name later."""


def test_objects_that_do_not_want_to_be_asked_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> str:
        msg = "asked for its name"
        raise AssertionError(msg)

    kept = [_Hostile(), _Lazy(), keras.layers.Dense(1, name="willing")]
    monkeypatch.setattr(_Lazy, "name", property(fail), raising=False)
    assert collect_live_objects((), pytest.fail, with_flops=False).names["willing"] == [("layer", "Dense")]
    assert len(kept) == 3


def test_a_fault_in_the_search_costs_the_names_only(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        msg = "no list today"
        raise RuntimeError(msg)

    layer = keras.layers.Dense(2)
    step = tf.function(lambda: layer(tf.ones((2, 3))))
    step()
    monkeypatch.setattr(gc, "get_objects", fail)
    capture = record(step)
    monkeypatch.undo()
    assert any("no list today" in problem for problem in capture.details["problems"])
    assert ("Gemm", "forward") in meanings(operators(capture), "dense")


def test_a_fault_in_reading_graphs_leaves_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[str] = []
    layer = keras.layers.Dense(1, name="still_known")
    monkeypatch.setattr(tf.Graph, "get_operations", None)
    found = collect_live_objects((), problems.append, with_flops=True)
    monkeypatch.undo()
    assert found.names[layer.name] == [("layer", "Dense")]
    assert any("graphs" in problem for problem in problems)


def test_the_search_waits_until_recording_ends(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    original = gc.get_objects

    def search() -> list[Any]:
        calls.append("search")
        return original()

    monkeypatch.setattr(gc, "get_objects", search)
    record(lambda: calls.append("work"))
    assert calls == ["work", "search"]


def test_keras_on_another_backend_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = keras.layers.Dense(1, name="not_of_tensorflow")
    older = tf_keras.layers.Dense(1, name="of_tensorflow")
    monkeypatch.setattr(keras.config, "backend", lambda: "torch")
    names = collect_live_objects((), pytest.fail, with_flops=False).names
    assert (layer.name in names, older.name in names) == (False, True)


EXECUTED = ["of_input", "of_product"]


def test_graphs_that_did_not_run_are_not_read() -> None:
    product = tf.function(lambda: tf.matmul(tf.ones((2, 2)), tf.ones((2, 2)), name="never_run"))
    kept = product.get_concrete_function()
    assert "never_run" not in collect_live_objects(EXECUTED, pytest.fail, with_flops=True).nodes
    assert kept.graph.get_operations()


def test_a_function_that_wrote_other_variables_did_not_run() -> None:
    variable = tf.Variable(1.0)
    step = tf.function(lambda: (variable.assign_add(1.0), tf.exp(variable, name="of_product")))
    kept = step.get_concrete_function()
    assert graphs_that_ran([kept.graph], ["of_product"]) == []
    assert graphs_that_ran([kept.graph], [op.name for op in kept.graph.get_operations()]) == [kept.graph]


def test_too_many_graphs_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = tf.data.Dataset.range(3).map(lambda number: tf.bitwise.invert(number, name="of_input"))
    product = tf.function(lambda: tf.matmul(tf.ones((2, 2)), tf.ones((2, 2)), name="of_product"))
    kept = dataset, product.get_concrete_function()
    found = collect_live_objects(EXECUTED, pytest.fail, with_flops=True)
    assert (found.roots.get("of_input"), "of_product" in found.nodes) == ("input", True)
    monkeypatch.setattr(live_graphs, "BUDGET_NS", -1)
    found = collect_live_objects(EXECUTED, pytest.fail, with_flops=True)
    assert (found.roots, found.gradients, found.nodes) == ({}, {}, {})
    assert len(kept) == 2
