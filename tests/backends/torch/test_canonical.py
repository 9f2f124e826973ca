from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from unified_profiler.spi.canonical import load_canonical
from unified_profiler_torch.canonical.table import forms_of, lookup

Events = Callable[..., pa.Table]
TABLE = load_canonical("unified_profiler_torch")


def learned(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, requires_grad=True)


def rows(table: pa.Table, **wanted: str) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if all(row[key] == value for key, value in wanted.items())]


def origins(table: pa.Table, **wanted: str) -> set[str | None]:
    return {row["origin"] for row in rows(table, kind="op", **wanted)}


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_name_of_aten_is_one_of_torch() -> None:
    registered = [name.split(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    listed = {*TABLE.function.operators, *TABLE.kernel.operators}
    listed = {name for name in listed if name.islower() and not set(name) & set(":*?#")}
    assert listed - {form for name in registered for form in forms_of(name)} == set()


@pytest.mark.parametrize(
    ("name", "op"),
    [
        *(("aten::relu_", "Relu"), ("aten::clamp_min", "Relu"), ("aten::threshold_backward", "Relu")),
        *(("aten::addmm", "Gemm"), ("aten::mm", "MatMul"), ("aten::mkldnn_convolution", "Conv")),
        *(("aten::convolution_backward", "Conv"), ("aten::slow_conv_transpose2d", "ConvTranspose")),
        *(("aten::native_batch_norm_backward", "BatchNormalization"), ("aten::cudnn_batch_norm", "BatchNormalization")),
        *(("aten::_log_softmax_backward_data", "LogSoftmax"), ("aten::nll_loss_forward", "NegativeLogLikelihoodLoss")),
        *(("aten::_efficient_attention_forward", "Attention"), ("aten::_flash_attention_backward", "Attention")),
        *(("aten::_scaled_dot_product_cudnn_attention_backward", "Attention"), ("aten::_fused_adamw_", "Adam")),
        *(
            ("aten::_foreach_addcdiv_", "Add"),
            ("aten::_foreach_norm", "ReduceL2"),
            ("aten::_foreach_copy_", "Identity"),
        ),
        *(("aten::randn", "RandomNormal"), ("aten::rand", "RandomUniform"), ("aten::slice_copy", "Slice")),
        *(("aten::special_expit", "Sigmoid"), ("aten::_to_copy", "Cast"), ("aten::index_copy_", "ScatterElements")),
        *(("## Call CompiledFxGraph fhamyf ##", "x:Compiled"), ("Torch-Compiled Region: 0/0", "x:Compiled")),
        *(("nccl:all_reduce", "x:AllReduce"), ("c10d::allreduce_", "x:AllReduce"), ("detach", "x:NoOp")),
        *(("aten::something_new", None), ("something_new", None), ("aten::", None), ("", None)),
    ],
)
def test_an_event_is_recognized_by_its_name(name: str, op: str | None) -> None:
    assert lookup().kernel(name) == op


@pytest.mark.parametrize(
    ("node", "op"),
    [
        *(("MaxPool2DWithIndicesBackward0", "MaxPool"), ("NativeLayerNormBackward0", "LayerNormalization")),
        *(("UpsampleBilinear2DBackward1", "Resize"), ("SmoothL1LossBackward0", "x:Loss"), ("Log1PBackward0", "Log")),
        *(("TBackward0", "Transpose"), ("ToCopyBackward0", "Cast"), ("CudnnBatchNormBackward0", "BatchNormalization")),
        *(("torch::autograd::AccumulateGrad", "x:AccumulateGrad"), ("torch::autograd::CopySlices", "Identity")),
        *(("CompiledFunctionBackward", "x:Compiled"),),
        *(("MyFunctionBackward", None), ("Backward", None), ("", None)),
    ],
)
def test_a_node_without_its_operator_is_recognized_by_its_name(node: str, op: str | None) -> None:
    assert lookup().marker(f"autograd::engine::evaluate_function: {node}") == (1, op)


# --- forward and backward ---------------------------------------------------------------------------------------------

LAYERS: list[tuple[nn.Module, tuple[int, ...], str]] = [
    (nn.Conv1d(4, 4, 3), (2, 4, 8), "Conv"),
    (nn.Conv2d(4, 4, 3, padding="same"), (2, 4, 8, 8), "Conv"),
    (nn.Conv3d(4, 4, 3), (2, 4, 4, 4, 4), "Conv"),
    (nn.ConvTranspose2d(4, 4, 3), (2, 4, 8, 8), "ConvTranspose"),
    (nn.Linear(8, 4), (2, 3, 8), "Gemm"),
    (nn.Linear(8, 4, bias=False), (2, 8), "Gemm"),
    (nn.GroupNorm(2, 4), (2, 4, 8), "GroupNormalization"),
    (nn.InstanceNorm1d(4), (2, 4, 8), "InstanceNormalization"),
    (nn.LayerNorm(8), (2, 4, 8), "LayerNormalization"),
    (nn.RMSNorm(8), (2, 4, 8), "RMSNormalization"),
    (nn.ReLU(), (2, 8), "Relu"),
    (nn.GELU(), (2, 8), "Gelu"),
    (nn.SiLU(), (2, 8), "Swish"),
    (nn.Hardtanh(), (2, 8), "Clip"),
    (nn.SELU(), (2, 8), "Selu"),
    (nn.CELU(), (2, 8), "Celu"),
    (nn.PReLU(), (2, 8), "PRelu"),
    (nn.Softmax(1), (2, 8), "Softmax"),
    (nn.MaxPool1d(2), (2, 4, 8), "MaxPool"),
    (nn.MaxPool3d(2), (2, 4, 4, 4, 4), "MaxPool"),
    (nn.AvgPool1d(2), (2, 4, 8), "AveragePool"),
    (nn.AdaptiveAvgPool1d(1), (2, 4, 8), "GlobalAveragePool"),
    (nn.AdaptiveMaxPool2d(2), (2, 4, 8, 8), "GlobalMaxPool"),
    (nn.Dropout(), (2, 8), "Dropout"),
    (nn.AlphaDropout(), (2, 8), "Dropout"),
    (nn.ReflectionPad1d(1), (2, 4, 8), "Pad"),
    (nn.Upsample(scale_factor=2, mode="bilinear"), (2, 4, 4, 4), "Resize"),
    (nn.PixelShuffle(2), (2, 4, 4, 4), "DepthToSpace"),
    (nn.LSTM(8, 4), (3, 2, 8), "LSTM"),
    (nn.GRU(8, 4), (3, 2, 8), "GRU"),
    (nn.RNN(8, 4), (3, 2, 8), "RNN"),
    (nn.LSTMCell(8, 4), (2, 8), "LSTM"),
]


@pytest.mark.parametrize(("layer", "shape", "op"), LAYERS, ids=[f"{op}-{layer}" for layer, _, op in LAYERS])
def test_a_layer_is_the_origin_of_all_it_does(
    events: Events, layer: nn.Module, shape: tuple[int, ...], op: str
) -> None:
    def forward() -> torch.Tensor:
        result = layer(data)
        first: torch.Tensor = result[0] if isinstance(result, tuple) else result
        return first

    data = learned(*shape)
    gradient = torch.ones_like(forward())
    table = events(lambda: forward().backward(gradient))
    first_state = {"ConstantOfShape"} if isinstance(layer, (nn.RNNBase, nn.RNNCellBase)) else set()
    assert origins(table, direction="forward") == {op} | first_state
    assert origins(table, direction="backward") == {op, "x:AccumulateGrad"}


@pytest.mark.parametrize(
    ("work", "op"),
    [
        (lambda a, b: a.clamp(min=0), "Clip"),  # in the kernel of relu
        (lambda a, b: torch.einsum("ij,kj->ik", a, b), "Einsum"),
        (functional.mse_loss, "x:Loss"),
        (lambda a, b: functional.cross_entropy(a, b.softmax(1).detach()), "SoftmaxCrossEntropyLoss"),
        (lambda a, b: functional.embedding(torch.tensor([1, 2]), a), "Gather"),
        (lambda a, b: a[torch.tensor([1, 2])], "GatherND"),
        (lambda a, b: a.bfloat16(), "Cast"),
        (lambda a, b: functional.scaled_dot_product_attention(a[None], b[None], b[None]), "Attention"),
        (lambda a, b: functional.scaled_dot_product_attention(a[None], b[None], b[None], attn_mask=a), "Attention"),
    ],
)
def test_a_function_is_the_origin_of_its_gradient(
    events: Events, work: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], op: str
) -> None:
    a, b = learned(8, 8), learned(8, 8)
    table = events(lambda: work(a, b).sum().backward())
    nodes = [row for row in rows(table, origin=op) if row["name"].startswith("autograd::engine")]
    assert {row["direction"] for row in rows(table, origin=op)} == {"forward", "backward"}
    assert {row["direction"] for row in nodes} == {"backward"}
    assert None not in origins(table)


def test_changes_of_layout_belong_to_the_attention_they_are_next_to_and_to_no_other(events: Events) -> None:
    layer, words = nn.MultiheadAttention(16, 2, batch_first=True), learned(2, 4, 16)

    def work() -> None:
        attended = layer(words, words, words, need_weights=False)[0]
        (attended.relu().transpose(0, 1).reshape(8, 16).contiguous() * 2).sum().backward()

    table = events(work)
    forward = [row["origin"] for row in rows(table, direction="forward") if row["op"] in {"Slice", "Unsqueeze"}]
    assert set(forward) == {"Attention"}
    selected = [row for row in rows(table, direction="backward") if "SelectBackward0" in row["name"]]
    assert {row["origin"] for row in selected} == {"Attention"}
    after = [row["origin"] for row in rows(table, name="aten::reshape", direction="forward")]
    assert after[-1] == "Reshape"


class Product(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed for mypy here
    @staticmethod
    def forward(context: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(a, b)
        return torch.relu(a) @ b

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = context.saved_tensors
        return torch.tanh(gradient) @ b, gradient @ a


def test_what_the_users_own_function_calls_is_its_own_origin(events: Events) -> None:
    a, b = learned(4, 4), learned(4, 4)
    table = events(lambda: Product.apply(a, b).sum().backward())
    assert origins(table, name="Product") == origins(table, name="ProductBackward") == {None}
    assert {"Relu", "MatMul"} <= origins(table, direction="forward")
    assert origins(table, name="aten::tanh", direction="backward") == {"Tanh"}
    assert origins(table, name="aten::mm", direction="backward") == {"MatMul"}


def test_nodes_of_recomputed_operators_are_recognized_by_their_names(events: Events) -> None:
    a, b = learned(4, 4), learned(4, 4)
    table = events(lambda: checkpoint(lambda x: torch.relu(x @ b), a, use_reentrant=True).sum().backward())
    assert origins(table, name="MmBackward0") == {"MatMul"}
    assert origins(table, name="ReluBackward0") == {"Relu"}
    assert origins(table, name="aten::clamp_min", direction="recompute") == {"Relu"}


def test_a_number_of_another_thread_joins_nothing(events: Events) -> None:
    results: list[torch.Tensor] = []
    operators: list[Callable[[torch.Tensor], torch.Tensor]] = [torch.exp, torch.sin]

    def work() -> None:
        for operator in operators:  # each thread counts from 0
            thread = threading.Thread(target=lambda operator=operator: results.append(operator(learned(4))))
            thread.start()
            thread.join()
        for result in results:
            result.sum().backward()

    config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    table = events(work, native_options={"experimental_config": config})
    numbers = {row["name"]: row["sequence_id"] for row in rows(table, direction="forward")}
    assert numbers["aten::exp"] == numbers["aten::sin"]
    assert (origins(table, name="ExpBackward0"), origins(table, name="SinBackward0")) == ({"Exp"}, {"Sin"})
