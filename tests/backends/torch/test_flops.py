from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from unified_profiler_torch.canonical.flops import flops_of

Events = Callable[..., pa.Table]
ELEMENTWISE = {"aten::mul", "aten::add"}


def learned(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, requires_grad=True)


def trained(forward: Callable[[], torch.Tensor]) -> Callable[[], None]:
    return lambda: forward().sum().backward()


def products(events: Events, work: Callable[[], Any]) -> list[tuple[str, int]]:
    """Return which operators count matrix products and convolutions, and how many operations."""
    table = events(work, with_flops=True).to_pylist()
    return [(e["name"], e["flops"]) for e in table if e["flops"] and e["name"] not in ELEMENTWISE]


@pytest.fixture
def mkldnn(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Switches oneDNN on or off, so that operators are computed in other ways."""
    torch._C._set_mkldnn_enabled(request.param)
    yield request.param
    torch._C._set_mkldnn_enabled(True)


@pytest.mark.parametrize(
    ("layer", "shape", "name", "forward"),
    [
        # 2 operations x batch x places of the output x weights
        (nn.Conv1d(4, 8, 3), (2, 4, 10), "aten::conv1d", 2 * 2 * 8 * (8 * 4 * 3)),
        (nn.Conv1d(4, 8, 3, groups=2), (2, 4, 10), "aten::conv1d", 2 * 2 * 8 * (8 * 2 * 3)),
        (nn.Conv2d(4, 8, (3, 5), stride=2, padding=1), (2, 4, 9, 9), "aten::conv2d", 2 * 2 * (5 * 4) * (8 * 4 * 15)),
        (nn.Conv2d(4, 4, 3, groups=4), (2, 4, 8, 8), "aten::conv2d", 2 * 2 * 36 * (4 * 1 * 9)),
        (nn.Conv3d(2, 3, 2, dilation=2), (1, 2, 5, 5, 5), "aten::conv3d", 2 * 27 * (3 * 2 * 8)),
        # ... x places of the input x weights of one channel of it
        (nn.ConvTranspose1d(4, 8, 3), (2, 4, 10), "aten::conv_transpose1d", 2 * (2 * 4 * 10) * (8 * 3)),
        (nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), (2, 4, 5, 5), "aten::conv_transpose2d", 2 * 200 * (3 * 9)),
        (nn.ConvTranspose3d(2, 3, 2), (1, 2, 4, 4, 4), "aten::conv_transpose3d", 2 * 128 * (3 * 8)),
    ],
)
def test_a_convolution_counts_once_and_each_of_its_gradients_as_much(
    events: Events, layer: nn.Module, shape: tuple[int, ...], name: str, forward: int
) -> None:
    counted = products(events, trained(lambda: layer(learned(*shape))))
    assert counted == [(name, forward), ("aten::convolution_backward", 2 * forward)]


def test_a_gradient_that_nobody_needs_costs_nothing(events: Events) -> None:
    counted = products(events, trained(lambda: nn.Conv1d(4, 8, 3)(torch.ones(2, 4, 10))))
    assert counted == [("aten::conv1d", 3072), ("aten::convolution_backward", 3072)]


@pytest.mark.parametrize(
    "forward",
    [
        lambda: nn.Conv2d(4, 8, 3, padding="same")(learned(2, 4, 8, 8)),
        lambda: nn.Conv2d(4, 8, 3)(learned(4, 8, 8)),
        lambda: torch.convolution(learned(2, 4, 9), learned(8, 4, 3), None, [1], [0], [1], False, [0], 1),
    ],
    ids=["padding by name", "without a batch", "not by conv2d"],
)
def test_where_torch_does_not_count_a_conv2d_the_convolution_in_it_does(
    events: Events, forward: Callable[[], torch.Tensor]
) -> None:
    counted = products(events, trained(forward))
    assert [name for name, _ in counted] == ["aten::convolution", "aten::convolution_backward"]


@pytest.mark.parametrize("mkldnn", [True, False], indirect=True)
@pytest.mark.parametrize(
    "forward",
    [
        lambda: nn.Conv1d(4, 8, 3)(learned(2, 4, 8)),
        lambda: nn.Conv2d(4, 8, 3, padding="same")(learned(2, 4, 8, 8)),
        lambda: nn.Conv2d(4, 8, 3, dilation=2)(learned(2, 4, 8, 8)),
        lambda: nn.ConvTranspose2d(4, 8, 3, stride=2)(learned(2, 4, 8, 8)),
        lambda: nn.Conv3d(4, 8, 3)(learned(2, 4, 8, 8, 8)),
        lambda: nn.Linear(6, 5)(learned(7, 3, 6)),
        lambda: nn.GRU(6, 5)(learned(7, 3, 6))[0],
        lambda: functional.scaled_dot_product_attention(
            learned(2, 4, 16, 8), learned(2, 4, 12, 8), learned(2, 4, 12, 8), attn_mask=learned(16, 12)
        ),
    ],
    ids=["conv1d", "conv2d same", "conv2d", "transposed", "conv3d", "linear", "gru", "attention of products"],
)
def test_the_sum_over_a_trace_is_what_the_dispatcher_counts(
    events: Events, forward: Callable[[], torch.Tensor], mkldnn: bool
) -> None:
    counted = products(events, trained(forward))
    with FlopCounterMode(display=False) as counter:
        trained(forward)()
    assert sum(flops for _, flops in counted) == counter.get_total_flops()


def test_fused_attention_counts_its_products(events: Events) -> None:
    def forward() -> torch.Tensor:
        query, key, value = learned(2, 4, 16, 8), learned(2, 4, 12, 8), learned(2, 4, 12, 8)
        attended: torch.Tensor = functional.scaled_dot_product_attention(query, key, value)
        return attended

    scores, name = 2 * 4 * 16 * 12, "aten::_scaled_dot_product_flash_attention_for_cpu"
    counted = products(events, trained(forward))
    assert counted == [(name, 2 * scores * (8 + 8)), (f"{name}_backward", 2 * scores * (8 + 8 + 8 + 8 + 8))]


@pytest.mark.parametrize("kernel", ["flash", "efficient", "cudnn"])
def test_attention_on_a_gpu_counts_like_that_on_a_cpu(kernel: str) -> None:
    name = f"aten::_scaled_dot_product_{kernel}_attention"
    query, key, value = [2, 8, 16, 4], [2, 2, 12, 4], [2, 2, 12, 6]  # groups of four queries share a key
    assert flops_of(name, json.dumps([query, key, value]), None) == 2 * (2 * 8 * 16 * 12) * (4 + 6)
    shapes = json.dumps([[2, 8, 16, 6], query, key, value])
    assert flops_of(f"{name}_backward", shapes, None) == 2 * (2 * 8 * 16 * 12) * (3 * 4 + 2 * 6)


def test_a_fused_lstm_counts_the_products_of_every_step(events: Events) -> None:
    counted = products(events, trained(lambda: nn.LSTM(6, 5)(learned(7, 3, 6))[0]))
    forward = 2 * (7 * 3) * (20 * 6 + 20 * 5)
    assert counted == [("aten::mkldnn_rnn_layer", forward), ("aten::mkldnn_rnn_layer_backward", 2 * forward)]


@pytest.mark.parametrize(
    ("shapes", "concrete"),
    [
        ("[[2,4,8],[8,4,3]]", None),
        ("[[2,4,8],[8,4,3]]", '["","","","[1]","","[1]","1"]'),
        ("[[2,4,8],[8,4,3]]", '["","","","[0]","[0]","[1]","1"]'),
        ("[[2,4,8],[8,4,3]]", '["","","","[1,1]","[0]","[1]","1"]'),
        ("[[4],[8,4,3]]", '["","","","[1]","[0]","[1]","1"]'),
        ("[]", "[]"),
        ("damaged", "[]"),
        (None, "[]"),
    ],
)
def test_inputs_that_were_not_recorded_count_nothing(shapes: str | None, concrete: str | None) -> None:
    assert flops_of("aten::conv1d", shapes, concrete) is None


def test_operators_without_a_formula_count_nothing() -> None:
    assert flops_of("aten::relu", "[[2,3]]", "[]") is None
