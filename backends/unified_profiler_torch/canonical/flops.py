"""Floating-point operations of an operator from its recorded inputs; the Kineto file does not hold them.

What torch counts itself is counted by torch's formulas, on the operators that torch counts. Products that torch leaves
at zero are counted by formulas of the same kind (a multiplication and an addition are two operations), each once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import msgspec
import numpy as np

from unified_profiler.model.foreign_values import whole
from unified_profiler.model.nesting import Ints
from unified_profiler.model.tree import Flags, Tree

Shape = list[int]


def flops_of(name: str, shapes: str | None, concrete: str | None) -> int | None:
    """Return the floating-point operations of one call, or None where none are counted.

    Args:
        name: The operator.
        shapes: Its input shapes, JSON.
        concrete: Its concrete inputs, JSON; needed for convolutions.
    """
    formula = _TORCHS.get(name) or _OURS.get(name)
    if formula is None or shapes is None:
        return None
    try:
        return whole(formula(_shapes(shapes), msgspec.json.decode(concrete or "[]"))) or None
    except (AttributeError, LookupError, TypeError, ValueError, ZeroDivisionError):  # inputs of something else
        return None


def _shapes(text: str) -> list[Any]:
    """Return the shapes of tensors, None for other inputs: a text or a list would be multiplied, too."""
    found = msgspec.json.decode(text, type=list[Any])
    return [shape if isinstance(shape, list) and all(type(size) is int for size in shape) else None for shape in found]


def counted_twice(flops: Ints, names: Ints, texts: Sequence[str], tree: Tree) -> Flags:
    """Flag operators that torch does not count, where one around or inside them counts the same products.

    A convolution is three operators within one another; and it may be made of matrix products, which torch counts.

    Args:
        flops: Those of each event, not more than 0 for none.
        names: The name of each event, as a number.
        texts: The names.
        tree: How the events nest.
    """
    ours = (flops > 0) & np.array([text in _OURS for text in texts], np.bool_)[names]
    product = (flops > 0) & np.array([text in _PRODUCTS for text in texts], np.bool_)[names]
    made_of_others = np.zeros(len(flops), np.bool_)
    for rows, parents in reversed(list(tree.below_roots())):
        made_of_others[parents[product[rows] | made_of_others[rows]]] = True
    counts = product | (ours & ~made_of_others)
    around = tree.inherit(np.where(counts, np.arange(len(flops)), -1), outermost=True)
    twice: Flags = ours & (around != np.arange(len(flops)))
    return twice


def _elementwise(shapes: list[Shape], _: Sequence[str]) -> int:
    return prod(shapes[0])


def _product(left: Shape, right: Shape, *, shared: int) -> int:
    return 2 * prod(left) * prod(right) // shared


def _mm(shapes: list[Shape], _: Sequence[str]) -> int:
    return _product(shapes[0], shapes[1], shared=shapes[0][-1])


def _addmm(shapes: list[Shape], _: Sequence[str]) -> int:
    return _product(shapes[1], shapes[2], shared=shapes[1][-1])


def _bmm(shapes: list[Shape], _: Sequence[str]) -> int:
    return _product(shapes[0], shapes[1], shared=shapes[0][0] * shapes[0][-1])


def _baddbmm(shapes: list[Shape], _: Sequence[str]) -> int:
    return _product(shapes[1], shapes[2], shared=shapes[1][0] * shapes[1][-1])


def _convolved(shapes: list[Shape], stride: str, padding: str, dilation: str) -> int:
    """Return the operations of a convolution: every weight meets every place of the output."""
    (batch, _, *size), (_, _, *kernel) = shapes[:2]
    if len(size) != len(kernel):  # without a batch; the operators inside have one
        return 0
    steps = zip(size, kernel, *map(_numbers, (stride, padding, dilation)), strict=True)
    out: Shape = [
        (width + 2 * pad - spread * (window - 1) - 1) // step + 1 for width, window, step, pad, spread in steps
    ]
    return 2 * batch * prod(out) * prod(shapes[1])


def _numbers(text: str) -> Shape:
    return msgspec.json.decode(text, type=Shape)


def _transposed(inputs: Shape, weight: Shape) -> int:
    """Return the operations of a transposed convolution: every weight meets every place of the input."""
    return 2 * prod(inputs) * prod(weight[1:]) if len(inputs) == len(weight) else 0


def _conv(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    return _convolved(shapes, *inputs[3:6])


def _conv_transpose(shapes: list[Shape], _: Sequence[Any]) -> int:
    return _transposed(shapes[0], shapes[1])


def _convolution(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    return _transposed(shapes[0], shapes[1]) if inputs[6] == "True" else _convolved(shapes, *inputs[3:6])


def _mkldnn_convolution(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    padding, stride, dilation = inputs[3:6]
    return _convolved(shapes, stride, padding, dilation)


def _convolution_backward(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    """The gradients of the input and of the weights take as much as the convolution each; that of the bias is a sum."""
    output_gradient, images, weight = shapes[:3]
    of_input, of_weight, _ = msgspec.json.decode(inputs[10].lower(), type=tuple[bool, bool, bool])
    return (of_input + of_weight) * _transposed(images if inputs[7] == "True" else output_gradient, weight)


def _attention(shapes: list[Shape], _: Sequence[Any]) -> int:
    return _scores(shapes[0], shapes[1]) * (shapes[0][3] + shapes[2][3])


def _attention_backward(shapes: list[Shape], _: Sequence[Any]) -> int:
    """Scores are computed again; they and the result have the gradients of two factors each."""
    _, query, key, value = shapes[:4]
    return _scores(query, key) * (3 * query[3] + 2 * value[3])


def _scores(query: Shape, key: Shape) -> int:
    """Return twice the number of scores; those that a mask leaves out count as well."""
    batch, heads, words, _ = query
    return 2 * batch * heads * words * key[2]


def _rnn_layer(shapes: list[Shape], _: Sequence[Any]) -> int:
    moments, inputs, state = shapes[0][:-1], shapes[1], shapes[2]
    return 2 * prod(moments) * (prod(inputs) + prod(state))


def _rnn_layer_backward(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    return 2 * _rnn_layer(shapes, inputs)


_ATTENTION = [
    f"aten::_scaled_dot_product_{kernel}"
    for kernel in ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")
]
_PRODUCTS = {
    "aten::conv2d": _conv,
    "aten::mm": _mm,
    "aten::addmm": _addmm,
    "aten::bmm": _bmm,
    "aten::baddbmm": _baddbmm,
}
_TORCHS = {**_PRODUCTS, "aten::mul": _elementwise, "aten::add": _elementwise}
_OURS = {
    "aten::conv1d": _conv,
    "aten::conv3d": _conv,
    **dict.fromkeys([f"aten::conv_transpose{dimensions}d" for dimensions in (1, 2, 3)], _conv_transpose),
    "aten::convolution": _convolution,
    "aten::_convolution": _convolution,
    "aten::mkldnn_convolution": _mkldnn_convolution,
    "aten::convolution_backward": _convolution_backward,
    **dict.fromkeys(_ATTENTION, _attention),
    **dict.fromkeys([f"{name}_backward" for name in _ATTENTION], _attention_backward),
    "aten::mkldnn_rnn_layer": _rnn_layer,
    "aten::mkldnn_rnn_layer_backward": _rnn_layer_backward,
}
