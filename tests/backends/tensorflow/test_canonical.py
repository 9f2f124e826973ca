from __future__ import annotations

import re
from collections import Counter
from fnmatch import translate
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from unified_profiler.spi.canonical import load_canonical
from unified_profiler_tensorflow.canonical.assignment import Canonical, layer_scope, lookup
from unified_profiler_tensorflow.canonical.live_names import LiveNames
from unified_profiler_tensorflow.read.live_objects import LiveObjects

TABLE = load_canonical("unified_profiler_tensorflow")


def test_every_type_of_node_is_one_of_tensorflow() -> None:
    registered = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())).op
    types = {op.name for op in registered}
    stems = types | {re.sub(r"^_*(Mkl)?(Native)?(?=\w)|V\d+$", "", name) for name in types}
    listed = set(TABLE.kernel.operators)
    unknown = {name for name in listed if "*" not in name and name not in stems}
    unused = {name for name in listed if "*" in name and not any(map(re.compile(translate(name)).match, types))}
    assert (unknown, unused) == (set(), set())


def test_every_class_is_one_of_keras_or_of_v1() -> None:
    rooms = (keras, keras.layers, keras.losses, keras.optimizers, tf_keras.layers, tf_keras.optimizers.legacy)
    public = [vars(module).values() for module in rooms]
    classes = {value.__name__ for values in public for value in values if isinstance(value, type)}
    v1 = {name.removesuffix("Optimizer") for name in dir(tf.compat.v1.train)}
    inside_others = {"ConvLSTMCell", "CompileLoss", "Functional"}
    listed = {*TABLE.layer.operators, *TABLE.optimizer.operators}
    listed = {name for name in listed if not name.islower()}  # those are scopes of functions
    assert (listed | TABLE.lists["containers"]) - classes - v1 - inside_others == set()


@pytest.mark.parametrize(
    ("op_type", "op"),
    [
        *(("Conv2D", "Conv"), ("_FusedConv2D", "Conv"), ("_MklNativeConv2D", "Conv"), ("Conv2DBackpropInput", "Conv")),
        *(("MatMul", "MatMul"), ("_MklMatMul", "MatMul"), ("BatchMatMulV3", "MatMul"), ("_FusedMatMul", "Gemm")),
        *(("_MklNativeFusedMatMul", "Gemm"), ("_MklNativeFusedBatchNormGradV3", "BatchNormalization")),
        *(("FusedBatchNormV3", "BatchNormalization"), ("AddV2", "Add"), ("SelectV2", "Where")),
        *(("ResourceApplyAdam", "Adam"), ("ResourceApplyFtrlV2", "x:Optimizer"), ("TensorSliceDataset", "x:DataLoad")),
        *(("ParallelMapDatasetV2", "x:DataLoad"), ("StatelessRandomUniformV2", "RandomUniform")),
        *(("convolution.3", "Conv"), ("dot", "MatMul"), ("wrapped_add.12", "Add"), ("copy.1.clone", "Identity")),
        *(("multiply_reduce_fusion.5", None), ("reduce-window.2", None), ("_UnaryOpsComposition", None)),
        *(("StatefulPartitionedCall", None), ("SomethingNew", None), ("", None)),
    ],
)
def test_operator_of_a_type(op_type: str, op: str | None) -> None:
    assert lookup(None, op_type).op == op


@pytest.mark.parametrize("op_type", ["MatMul", "AddV2", "Conv2DBackpropInput", "ReadVariableOp", "convolution.3"])
def test_without_a_path_origin_and_direction_are_not_known(op_type: str) -> None:
    assert lookup(None, op_type) == Canonical(lookup(None, op_type).op, None, None)


@pytest.mark.parametrize(
    ("op_type", "origin", "direction"),
    [
        *(("MakeIterator", "x:DataLoad", "forward"), ("PrefetchDataset", "x:DataLoad", "forward")),
        *(("ResourceApplyAdam", "Adam", "update"), ("ResourceSparseApplyFtrlV2", "x:Optimizer", "update")),
    ],
)
def test_types_that_tell_everything_without_a_path(op_type: str, origin: str, direction: str) -> None:
    assert lookup(None, op_type) == Canonical(origin, origin, direction)


def test_every_layer_and_loss_of_keras_has_an_entry() -> None:
    rooms = [(keras.layers, keras.Layer), (keras.losses, keras.Loss), (keras.optimizers, keras.optimizers.Optimizer)]
    public = {
        value.__name__
        for room, base in rooms
        for value in vars(room).values()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    }
    listed = {*TABLE.layer.operators, *TABLE.optimizer.operators, *TABLE.lists["containers"]}
    assert public - listed == set()


KERAS = "StatefulPartitionedCall/functional_1"
TAPE = "StatefulPartitionedCall/gradient_tape/functional_1"
LSTM = "functional_1/lstm_1"
CELL = f"{LSTM}/while/lstm_cell"
LOOP = "gradient_tape/functional_1/lstm_1/while/functional_1/lstm_1/while_grad/body/_217/gradient_tape/functional_1"


@pytest.mark.parametrize(
    ("node", "op_type", "expected"),
    [
        (f"{KERAS}/conv2d_1/Relu", "_FusedConv2D", ("Conv", "Conv", "forward")),
        (f"{KERAS}/re_lu/Relu", "_FusedConv2D", ("Conv", "Conv", "forward")),
        (f"{KERAS}/batch_normalization/batchnorm/add_1", "_FusedConv2D", ("Conv", "Conv", "forward")),
        (f"{KERAS}/re_lu/Relu", "_FusedBatchNormEx", ("BatchNormalization", "BatchNormalization", "forward")),
        (f"{KERAS}/p_re_lu/Relu_1/unary_ops_composition", "_UnaryOpsComposition", ("Relu", "PRelu", "forward")),
        (f"{KERAS}/lstm/lstm_cell/BiasAdd", "_FusedMatMul", ("Gemm", "LSTM", "forward")),
        (f"{TAPE}/conv2d_1/convolution/Conv2DBackpropFilter", "Conv2DBackpropFilter", ("Conv", "Conv", "backward")),
        (f"{TAPE}/conv2d_1/BiasAdd/BiasAddGrad", "BiasAddGrad", ("ReduceSum", "Conv", "backward")),
        (f"{TAPE}/conv2d_1/ReluGrad", "ReluGrad", ("Relu", "Relu", "backward")),
        (f"{KERAS}/conv2d_transpose/conv_transpose", "Conv2DBackpropInput", ("Conv", "ConvTranspose", "forward")),
        (f"{KERAS}/dense_1_2/Relu", "_FusedMatMul", ("Gemm", "Gemm", "forward")),
        (f"{KERAS}/dense/Softmax", "Softmax", ("Softmax", "Softmax", "forward")),
        (f"{TAPE}/dense/Softmax/mul", "Mul", ("Mul", "Softmax", "backward")),
        (f"{KERAS}/activation/Gelu/Erfc", "Erfc", ("Erf", "Gelu", "forward")),
        (f"{KERAS}/leaky_re_lu/LeakyRelu", "LeakyRelu", ("LeakyRelu", "LeakyRelu", "forward")),
        (f"{KERAS}/batch_normalization_1/moments/Mean", "Mean", ("ReduceMean", "BatchNormalization", "forward")),
        (f"{TAPE}/batch_normalization_1/batchnorm/add_1/Sum", "Sum", ("ReduceSum", "BatchNormalization", "backward")),
        (f"{KERAS}/multi_head_attention_1/query_1/MatMul", "BatchMatMulV2", ("MatMul", "Gemm", "forward")),
        (f"{KERAS}/query/MatMul", "MatMul", ("MatMul", "MatMul", "forward")),
        (f"{KERAS}/multi_head_attention_1/softmax/Softmax", "Softmax", ("Softmax", "Attention", "forward")),
        (f"{KERAS}/bidirectional/backward_lstm/zeros", "Fill", ("ConstantOfShape", "LSTM", "forward")),
        (f"{LOOP}/lstm_1/while/gradients/AddN_3", "AddN", ("Sum", "LSTM", "backward")),
        (f"{KERAS}/lstm/while/body/_8/lstm_cell/Sigmoid", "Sigmoid", ("Sigmoid", "LSTM", "forward")),
        ("StatefulPartitionedCall/AddN_5", "AddN", ("Sum", "Sum", "backward")),
        ("while/body/_1/while/AddN_5", "AddN", ("Sum", "Sum", "backward")),
        ("StatefulPartitionedCall/adam/mul_3/x", "UnsortedSegmentSum", ("Gather", "Gather", "backward")),
        ("mine/UnsortedSegmentSum", "UnsortedSegmentSum", ("Gather", "Gather", "forward")),
        ("cond/then/_3/cond/loss_scale_optimizer/adam/Sqrt_3", "Sqrt", ("Sqrt", "Adam", "update")),
        ("mine/AddN", "AddN", ("Sum", "Sum", "forward")),
        ("mine/momentum", "Mul", ("Mul", "Mul", "forward")),
        ("GradientDescent", "AssignAddVariableOp", ("Add", "Momentum", "update")),
        ("StatefulPartitionedCall/adam/Sqrt_3", "Sqrt", ("Sqrt", "Adam", "update")),
        ("StatefulPartitionedCall/rm_sprop/Mul", "Mul", ("Mul", "x:Optimizer", "update")),
        ("StatefulPartitionedCall/adam_w/Mul", "Mul", ("Mul", "Adam", "update")),
        ("GradientDescent/update_w/ResourceApplyGradientDescent", "X", (None, "Momentum", "update")),
        ("train/update_w/ResourceApplyAdam", "ResourceApplyAdam", ("Adam", "Adam", "update")),
        ("training/Adam/gradients/gradients/dense/MatMul_grad/MatMul", "MatMul", ("MatMul", "Gemm", "backward")),
        ("gradients/MatMul_2_grad/transpose", "Transpose", ("Transpose", "MatMul", "backward")),
        ("gradients_1/mul_grad/Reshape_1", "Reshape", ("Reshape", "Mul", "backward")),
        ("gradients/weird_grad/Sum", "Sum", ("ReduceSum", "ReduceSum", "backward")),
        (
            "compile_loss/sparse_categorical_crossentropy/Sum",
            "Sum",
            ("ReduceSum", "SoftmaxCrossEntropyLoss", "forward"),
        ),
        ("compile_loss/mean_squared_error/Sum", "Sum", ("ReduceSum", "ReduceSum", "forward")),
        ("IteratorGetNext", "IteratorGetNext", ("x:DataLoad", "x:DataLoad", "forward")),
        ("loop/while/body/_1/mul", "Mul", ("Mul", "Mul", "forward")),
        ("something", "SomethingNew", (None, None, "forward")),
        ("unary_ops_composition", "_UnaryOpsComposition", (None, None, "forward")),
    ],
)
def test_origin_and_direction_of_a_node(node: str, op_type: str, expected: tuple[str | None, ...]) -> None:
    found = lookup(node, op_type)
    assert (found.op, found.origin, found.direction) == expected


LIVE = LiveNames.of(
    LiveObjects(
        names={
            "stem": [("layer", "Conv2D")],
            "wow": [("optimizer", "AdamW")],
            "mine": [("optimizer", "Optimizer")],
            "old": [("optimizer", "AdamOptimizer")],
            "block1": [("layer", "Layer")],
            "dense": [("layer", "Layer")],
            "adam": [("layer", "Dense")],
            "mul": [("layer", "Dense")],
            "both": [("layer", "Conv2D"), ("layer", "Dense")],
            "alike": [("layer", "Dense"), ("layer", "EinsumDense")],
            "either": [("layer", "Dense"), ("optimizer", "SGD")],
        },
        roots={"Add_3": "metric", "AssignVariableOp": "optimizer", "Cast": "input", "cond": "optimizer"},
    )
)


@pytest.mark.parametrize(
    ("node", "origin", "direction"),
    [
        ("model/stem/Reshape", "Conv", "forward"),
        ("model/stem_1/Reshape", "Conv", "forward"),
        ("gradient_tape/model/stem_1/Reshape", "Conv", "backward"),
        ("wow/Reshape", "Adam", "update"),
        ("mine/Reshape", "x:Optimizer", "update"),
        ("old/Reshape", "Adam", "update"),
        ("block1/Reshape", "Reshape", "forward"),
        ("dense/Reshape", "Reshape", "forward"),
        ("adam/Reshape", "Gemm", "forward"),
        ("model/stem/mul/Reshape", "Conv", "forward"),
        ("model/mul/Reshape", "Gemm", "forward"),
        ("model/both/Reshape", None, "forward"),
        ("gradient_tape/model/both/Reshape", None, "backward"),
        ("model/both/stem/Reshape", "Conv", "forward"),
        ("model/alike/Reshape", "Gemm", "forward"),
        ("either/Reshape", None, None),
        ("gradient_tape/model/either/Reshape", None, "backward"),
        ("StatefulPartitionedCall/Add_3", "x:Metric", "forward"),
        ("while/body/_1/while/cond/then/_2/while/cond/StatefulPartitionedCall/Add_3/y", "x:Metric", "forward"),
        ("StatefulPartitionedCall/AssignVariableOp", "x:Optimizer", "update"),
        ("StatefulPartitionedCall/cond/then/_2/cond/Add_3", "x:Optimizer", "update"),
        ("Cast", "x:DataLoad", "forward"),
        ("model/Add_3", "Reshape", "forward"),
    ],
)
def test_names_of_live_objects_come_before_default_names(node: str, origin: str | None, direction: str | None) -> None:
    assert lookup(node, "Reshape", LIVE) == Canonical("Reshape", origin, direction)


@pytest.mark.parametrize(
    ("node", "scope"),
    [
        (f"{KERAS}/conv2d_1/Reshape/ReadVariableOp", "functional_1/conv2d_1"),
        (f"{TAPE}/dense_1/MatMul/MatMul_1", "functional_1/dense_1"),
        (f"{KERAS}/add_1/Add", "functional_1/add_1"),
        (f"{KERAS}/separable_conv2d_1/separable_conv2d/depthwise", "functional_1/separable_conv2d_1"),
        (f"{TAPE}/batch_normalization_1/batchnorm/add_1/Sum", "functional_1/batch_normalization_1"),
        (f"{KERAS}/multi_head_attention/query/MatMul", "functional_1/multi_head_attention/query"),
        (f"{LOOP}/lstm_1/while/gradients/functional_1/lstm_1/while/lstm_cell/mul_grad/Sum", LSTM),
        (f"{CELL}/MatMul", LSTM),
        (f"{KERAS}/lstm_1/while/body/_8/functional_1/lstm_1/while/TensorArray", "functional_1/lstm_1"),
        ("my_model/encoder/projection/MatMul", "my_model/encoder/projection"),
        ("gradient_tape/my_model/encoder/projection/MatMul/MatMul_1", "my_model/encoder/projection"),
        ("gradients/dense/MatMul_grad/MatMul_1", "dense"),
        ("training/Adam/gradients/gradients/dense/MatMul_grad/MatMul", "dense"),
        ("loop/while/body/_1/add/y", "loop"),
        ("loop/while/merge/_7", "loop"),
        ("while/merge/_7", None),
        ("while/body/_1/while/cond/then/_2/while/cond/StatefulPartitionedCall/model/dense/MatMul", "model/dense"),
        ("model/block/StatefulPartitionedCall/dense/MatMul", "model/block/dense"),
        ("Func/functional_1/lstm_1/while/input/_12", LSTM),
        ("Func/StatefulPartitionedCall/cond/then/_2/input/_12", None),
        ("PrefetchDataset/_3", None),
        ("StatefulPartitionedCall/adam/Sqrt_3", None),
        ("MatMul", None),
        ("add/y", None),
    ],
)
def test_layer_of_a_node(node: str, scope: str | None) -> None:
    assert layer_scope(node) == scope


def test_a_live_layer_of_any_class_is_a_layer() -> None:
    assert layer_scope("model/block1/MatMul/a/b", LIVE) == "model/block1"


def _model() -> Any:
    layers = keras.layers
    images = keras.Input((12, 12, 3))
    x = layers.MaxPooling2D()(layers.BatchNormalization()(layers.Conv2D(8, 3, activation="relu")(images)))
    x = layers.Activation("gelu")(layers.DepthwiseConv2D(3, padding="same")(x))
    x = layers.Reshape((25, 8))(x)
    x = layers.LayerNormalization()(layers.Add()([x, layers.MultiHeadAttention(2, 4)(x, x)]))
    x = layers.LSTM(8)(layers.Dropout(0.1)(x))
    model = keras.Model(images, layers.Dense(10)(layers.Dense(16, activation="relu")(x)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    return model


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, int]]:
    """Node, type and duration of every operator in some steps of training with Keras."""
    logdir, model = tmp_path_factory.mktemp("training"), _model()
    images, labels = np.ones((8, 12, 12, 3), np.float32), np.zeros(8, np.int64)
    model.train_on_batch(images, labels)
    tf.profiler.experimental.start(str(logdir))
    model.train_on_batch(images, labels)
    tf.profiler.experimental.stop()
    return _operators(next(logdir.rglob("*.xplane.pb")))


def _operators(file: Path) -> list[tuple[str, str, int]]:
    planes = xplane_pb2.XSpace.FromString(file.read_bytes()).planes
    names = [
        (plane.event_metadata[event.metadata_id].name, event.duration_ps)
        for plane in planes
        for line in plane.lines
        for event in line.events
    ]
    found = [(re.fullmatch(r"([\w./>-]+):(\w+)", name), duration) for name, duration in names]
    return [(match[1], match[2], duration) for match, duration in found if match]


@pytest.mark.parametrize(("column", "least"), [("op", 0.95), ("origin", 0.9), ("direction", 1.0)])
def test_share_of_the_time_of_a_training_step_that_is_named(
    training: list[tuple[str, str, int]], column: str, least: float
) -> None:
    unnamed: Counter[str] = Counter()
    for node, op_type, duration in training:
        if getattr(lookup(node, op_type), column) is None:
            unnamed[f"{node}:{op_type}"] += duration
    whole = sum(duration for *_, duration in training)
    assert 1 - unnamed.total() / whole >= least, unnamed.most_common(10)


def test_origins_of_a_training_step_are_its_layers(training: list[tuple[str, str, int]]) -> None:
    rows = {(found.origin, found.direction) for found in (lookup(node, op_type) for node, op_type, _ in training)}
    layers = [
        "Conv",
        "BatchNormalization",
        "MaxPool",
        "Gelu",
        "Attention",
        "LayerNormalization",
        "Dropout",
        "LSTM",
        "Gemm",
    ]
    expected = {(layer, direction) for layer in layers for direction in ("forward", "backward")}
    assert expected | {("SoftmaxCrossEntropyLoss", "forward"), ("Adam", "update")} <= rows
    assert {origin for origin, direction in rows if direction == "update"} == {"Adam"}
