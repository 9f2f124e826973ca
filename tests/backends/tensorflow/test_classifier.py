from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unified_profiler_tensorflow.canonical.assignment import layer_scope, lookup
from unified_profiler_tensorflow.canonical.classifier import NodeClassifier
from unified_profiler_tensorflow.canonical.live_names import NO_LIVE_NAMES, LiveNames
from unified_profiler_tensorflow.read.live_objects import LiveObjects

LIVE = LiveNames.of(
    LiveObjects(
        names={
            "mine": [("layer", "Dense")],
            "mine_1": [("layer", "Layer")],
            "block_2": [("layer", "Block_1")],
            "both": [("layer", "Conv2D"), ("layer", "Dense")],
            "wow": [("optimizer", "AdamW")],
            "add": [("layer", "Layer")],
        },
        roots={"AddN": "tape", "Sum_1": "metric", "zeros": "optimizer", "cond": "unsure"},
        gradients={"gradients/block/x_grad/Sum": "MatMul", "mul_1": "Conv2D"},
    )
)
WORDS = st.sampled_from(
    [
        *("dense", "conv2d", "lstm", "lstm_cell", "multi_head_attention", "query", "batch_normalization", "sequential"),
        *("Adam", "adam", "SGD", "Relu", "re_lu", "gelu", "Softmax", "add", "mul", "MatMul", "AddN", "Sum", "zeros"),
        *("gradients", "gradient_tape", "while", "cond", "body", "then", "true", "Func", "PartitionedCall", "input"),
        *("StatefulPartitionedCall", "ConstantFolding", "unary_ops_composition", "kernel", "block", "block1", "block2"),
        *("x", "X", "a.b", "_", "", "_x", "forward_lstm", "backward_mine", "forward_x", "ApplyX", "MyDataset", "a b"),
        *("mine", "both", "wow", "block_1", "x_1_y", "a\n", "update_dense"),
    ]
)
SUFFIXES = st.sampled_from(["", "", "", "_1", "_2", "_17", "_1_2", "_grad", "_1_grad", "_grad_3", "_1_grad_2", "_x"])
PARTS = st.builds("".join, st.tuples(WORDS, SUFFIXES)) | st.sampled_from(["_1", "_12", "_1_2", "_grad", "_grad_1"])
NODES = st.lists(PARTS, min_size=1, max_size=6).map("/".join)
TYPES = st.sampled_from(["MatMul", "_FusedConv2D", "AddN", "ResourceApplyAdam", "UnsortedSegmentSum", "New", "Relu"])


@pytest.mark.parametrize("live", [NO_LIVE_NAMES, LIVE], ids=["default names", "live objects"])
@settings(max_examples=300)
@given(nodes=st.lists(st.tuples(NODES, TYPES), min_size=1, max_size=30))
def test_nodes_of_one_form_are_classified_as_if_each_were_looked_up(
    live: LiveNames, nodes: list[tuple[str, str]]
) -> None:
    classifier = NodeClassifier(live)
    for node, op_type in nodes:
        expected = lookup(node, op_type, live)
        columns = (expected.op, expected.origin, expected.direction, layer_scope(node, live))
        assert classifier.classify(node, op_type) == columns


@pytest.mark.parametrize(
    "nodes",
    [
        ["dense_1/MatMul", "dense_17/MatMul"],
        ["gradients/encoder/block3/mlp/MatMul_grad/MatMul_1", "gradients/encoder/block250/mlp/MatMul_grad/MatMul_1"],
    ],
)
def test_numbers_make_no_new_form(nodes: list[str]) -> None:
    classifier = NodeClassifier(NO_LIVE_NAMES)
    modules = [classifier.classify(node, "MatMul")[3] for node in nodes]
    assert len(classifier._forms) == 1
    assert len(set(modules)) == 2
