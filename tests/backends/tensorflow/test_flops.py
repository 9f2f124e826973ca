from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.python.framework import ops

from unified_profiler.spi import NativeCapture
from unified_profiler_tensorflow.canonical.flops import flops_of
from unified_profiler_tensorflow.read.normalizer import TensorFlowNormalizer

from .conftest import Net, Record

CONV = {"strides": [1, 2, 2, 1], "padding": "VALID", "dilations": [1, 1, 1, 1], "data_format": "NHWC"}
IMAGE, FILTER = [4, 12, 12, 3], [3, 3, 3, 8]


def count(
    op_type: str, *shapes: list[int], output: list[int] | None = None, details: Any = (), kind: str = "float"
) -> Any:
    inputs, types = json.dumps(list(shapes)), json.dumps([kind] * len(shapes))
    return flops_of(op_type, inputs, types, outputs=json.dumps([output]) if output else None, details=details)


@pytest.mark.parametrize("op_type", ["MatMul", "_MklMatMul", "_FusedMatMul", "_MklNativeFusedMatMul"])
def test_a_product_of_matrices(op_type: str) -> None:
    assert count(op_type, [4, 200], [200, 8]) == 2 * 4 * 200 * 8


@pytest.mark.parametrize("shapes", [([4, 200], [8, 200]), ([200, 4], [200, 8]), ([200, 4], [8, 200])])
def test_a_product_of_transposed_matrices(shapes: tuple[list[int], list[int]]) -> None:
    assert count("MatMul", *shapes) == 2 * 4 * 200 * 8


def test_a_product_with_two_answers_has_none() -> None:
    assert count("MatMul", [3, 5], [5, 3]) is None
    assert count("BatchMatMulV2", [7, 3, 5], [7, 3, 5]) is None


@pytest.mark.parametrize(
    ("more", "flops"),
    [
        ({"details": [{"transpose_a": False, "transpose_b": False}]}, 2 * 3 * 5 * 3),
        ({"details": [{"transpose_a": True, "transpose_b": True}]}, 2 * 5 * 3 * 5),
        ({"details": [{"transpose_a": False, "transpose_b": True, "result": [3, 3]}]}, 2 * 3 * 5 * 3),
        ({"output": [5, 5]}, 2 * 5 * 3 * 5),
        ({"details": [{"transpose_a": False}, {"transpose_a": True, "transpose_b": True}]}, None),
    ],
)
def test_the_graph_or_the_result_tell_which_answer_it_is(more: dict[str, Any], flops: int | None) -> None:
    assert count("MatMul", [3, 5], [5, 3], **more) == flops


def test_the_bias_of_a_fused_product_tells_its_width() -> None:
    assert count("_FusedMatMul", [3, 5], [5, 3], [3]) == 2 * 3 * 5 * 3


def test_details_that_do_not_fit_are_those_of_another_node() -> None:
    wrong = {"transpose_a": True, "transpose_b": False}
    assert count("MatMul", [4, 200], [200, 8], details=[wrong]) == 2 * 4 * 200 * 8


def test_batches_are_broadcast() -> None:
    assert count("BatchMatMulV2", [6, 1, 4, 200], [5, 200, 8]) == 2 * 6 * 5 * 4 * 200 * 8


@pytest.mark.parametrize(
    ("equation", "shapes", "flops"),
    [
        ("abc,cde->abde", ([2, 3, 5], [5, 7, 11]), 2 * 2 * 3 * 5 * 7 * 11),
        ("BTNH,BSNH->BNTS", ([2, 3, 5, 7], [2, 11, 5, 7]), 2 * 2 * 3 * 5 * 7 * 11),
        ("...ab,...bc->...ac", ([9, 1, 2, 3], [4, 3, 5]), 2 * 9 * 4 * 2 * 3 * 5),
        ("a,b->ab", ([3], [4]), 3 * 4),
        ("ab->ba", ([3, 4],), None),
    ],
)
def test_sums_of_products(equation: str, shapes: tuple[list[int], ...], flops: int | None) -> None:
    assert count("Einsum", *shapes, details=[{"equation": equation}]) == flops
    assert count("Einsum", *shapes) is None


def test_the_strides_of_a_convolution_must_be_known() -> None:
    assert count("_FusedConv2D", IMAGE, FILTER, [8], details=[CONV]) == 2 * 4 * 5 * 5 * 3 * 3 * 3 * 8
    assert count("_FusedConv2D", IMAGE, FILTER, [8]) is None
    assert count("_FusedConv2D", IMAGE, FILTER, [8], output=[4, 5, 5, 8]) == 2 * 4 * 5 * 5 * 3 * 3 * 3 * 8


def test_a_convolution_with_another_filter_is_another_one() -> None:
    other = CONV | {"strides": [1, 1, 1, 1], "filter": [5, 5, 3, 8]}
    assert count("Conv2D", IMAGE, FILTER, details=[CONV, other]) == 2 * 4 * 5 * 5 * 3 * 3 * 3 * 8


def test_the_gradient_of_the_filter_needs_the_filter() -> None:
    shapes = (IMAGE, [4], [4, 5, 5, 8])
    assert count("Conv2DBackpropFilter", *shapes, details=[{"filter": FILTER}]) == 2 * 4 * 5 * 5 * 3 * 3 * 3 * 8
    assert count("Conv2DBackpropFilter", *shapes) is None


def test_only_products_of_floating_point_numbers_are_counted() -> None:
    assert count("MatMul", [4, 200], [200, 8], kind="int32") is None
    assert count("MatMul", [4, 200], [200, 8], kind="half") == 2 * 4 * 200 * 8
    assert count("Relu", [4, 200]) is None


@given(
    st.sampled_from(["MatMul", "Einsum", "Conv2D", "Conv3DBackpropInputV2", "DepthwiseConv2dNative"]),
    st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=4),
    st.sampled_from([(), ({"equation": "ab,bc"},), (CONV,), ({"filter": [1, 0]},)]),
)
def test_shapes_that_cannot_be_have_no_answer_or_a_number(op_type: str, shapes: list[list[int]], details: Any) -> None:
    found = count(op_type, *shapes, details=details)
    assert found is None or found >= 0


def events(capture: NativeCapture) -> list[dict[str, Any]]:
    return list(TensorFlowNormalizer().normalize(capture).to_pylist())


def _counted(rows: list[dict[str, Any]]) -> dict[str, int]:
    """FLOPs by the node's name in its graph."""
    named = [(json.loads(row["attributes"])["node"], row["flops"]) for row in rows if row["flops"] is not None]
    return dict(named)


PLAIN = [
    {"strides": 1, "padding": "SAME"},
    {"strides": 2, "padding": "VALID"},
    {"strides": 3, "padding": "SAME"},
    {"strides": 2, "padding": [[0, 0], [1, 2], [0, 3], [0, 0]]},
]
DILATED = [{"strides": 1, "padding": "VALID", "dilations": 2}]  # on the processor it has no gradient


def test_convolutions_and_their_gradients_agree_with_tensorflows_own_counts(record: Record) -> None:
    filters = [tf.Variable(tf.ones((3, 2, 4, 6))) for _ in PLAIN]

    @tf.function  # type: ignore[untyped-decorator]
    def step(image: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(image)
            results = [tf.nn.conv2d(image, w, **how) for w, how in zip(filters, PLAIN, strict=True)]
            loss = tf.add_n([tf.reduce_sum(result**2) for result in results])
        return tape.gradient(loss, [image, *filters]), [tf.nn.conv2d(image, filters[0], **how) for how in DILATED]

    image = tf.ones((5, 11, 13, 4))
    step(image)
    counted = _counted(events(record(lambda: step(image), with_flops=True)))
    graph = step.get_concrete_function(image).graph
    convolutions = [node for node in graph.as_graph_def().node if node.op == "Conv2D"]
    expected = {node.name: ops.get_stats_for_node_def(graph, node, "flops").value for node in convolutions}
    forward = sorted(expected)
    assert len(forward) == len(PLAIN) + len(DILATED)
    assert {name: counted.get(name) for name in forward} == {name: expected[name] for name in forward}
    gradients = [name for name in counted if name.startswith("gradient_tape")]
    assert Counter(counted[name] for name in gradients) == Counter(
        2 * [expected[name] for name in forward[: len(PLAIN)]]
    )


def test_a_model_of_keras_against_numbers_counted_by_hand(record: Record) -> None:
    layers = keras.layers
    images = keras.Input((10, 10, 3))
    x = layers.Conv2D(8, 3, strides=2, activation="relu")(images)  # 4 x 4 places
    x = layers.DepthwiseConv2D(3, padding="same")(x)
    x = layers.Reshape((16, 8))(x)
    x = layers.MultiHeadAttention(2, 4)(x, x)
    model = keras.Model(images, layers.Dense(5)(layers.Flatten()(x)))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    data = np.ones((6, 10, 10, 3), np.float32), np.zeros(6, np.int64)
    model.train_on_batch(*data)
    rows = events(record(lambda: model.train_on_batch(*data), with_flops=True))
    found: Counter[tuple[str, str]] = Counter()
    for row in rows:
        found[row["origin"], row["direction"]] += row["flops"] or 0
    convolution, depthwise = 2 * 6 * 16 * 27 * 8, 2 * 6 * 16 * 9 * 8
    projections, head = 4 * 2 * 6 * 16 * 8 * 8, 2 * 6 * 128 * 5
    attention = 2 * 2 * 6 * 2 * 16 * 16 * 4
    assert found["Conv", "forward"] == convolution + depthwise
    assert found["Conv", "backward"] == convolution + 2 * depthwise  # nobody asks for the gradient of the images
    assert found["Gemm", "forward"] == projections + head
    assert found["Gemm", "backward"] == 2 * (projections + head)
    assert found["Attention", "forward"] == attention
    assert found["Attention", "backward"] == 2 * attention
    products = [row for row in rows if row["op"] in {"Conv", "MatMul", "Gemm", "Einsum"} and row["kind"] == "op"]
    assert all(row["flops"] is not None for row in products)


def test_operators_of_sessions_are_counted_once(net: Net, record: Record) -> None:
    rows = events(record(net.run, with_flops=True))
    products = [row for row in rows if row["flops"] is not None]
    assert sorted(row["flops"] for row in products) == [2 * 4 * 8 * 2] * 2  # forward, and the gradient of the weights
    assert {row["kind"] for row in products} == {"op"}


@pytest.mark.parametrize("options", [{}, {"record_shapes": True}])
def test_nothing_is_counted_that_nobody_asked_for(options: dict[str, bool], record: Record) -> None:
    step = tf.function(lambda a: a @ a)
    assert {row["flops"] for row in events(record(lambda: step(tf.ones((2, 2))), **options))} == {None}


def test_a_trace_of_another_program_is_counted_as_far_as_its_shapes_tell(record: Record, tmp_path: Path) -> None:
    step = tf.function(lambda a: a @ tf.ones((3, 5)))
    capture = record(lambda: step(tf.random.normal((2, 3))), record_shapes=True)
    elsewhere = tmp_path / "copy.xplane.pb"
    elsewhere.write_bytes(capture.files[0].read_bytes())
    assert 2 * 2 * 3 * 5 in {row["flops"] for row in events(NativeCapture(backend="tensorflow", files=(elsewhere,)))}
