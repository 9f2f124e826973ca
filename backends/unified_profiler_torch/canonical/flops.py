"""Computes the floating-point operations of an operator from its recorded inputs; Kineto files do not contain them.

Operators that torch counts use torch's formulas. Products that torch leaves at zero use formulas of the same kind (a
multiplication and an addition are two operations), and each product is counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import msgspec
import numpy as np

from unified_profiler.model.foreign_values import int_or_none
from unified_profiler.model.nesting import Ints
from unified_profiler.model.tree import Flags, Tree

Shape = list[int]


def flops_of(name: str, shapes: str | None, concrete: str | None) -> int | None:
    """Return the floating-point operations of one call, or None if they are not counted.

    Args:
        name: The operator.
        shapes: Its input shapes as JSON.
        concrete: Its concrete inputs as JSON; needed for convolutions.
    """
    formula = _TORCH_FORMULAS.get(name) or _ADDED_FORMULAS.get(name)
    if formula is None or shapes is None:
        return None
    try:
        return int_or_none(formula(_shapes(shapes), msgspec.json.decode(concrete or "[]"))) or None
    except (AttributeError, LookupError, TypeError, ValueError, ZeroDivisionError):  # inputs of another operator
        return None


def _shapes(text: str) -> list[Any]:
    """Return the shapes of tensors and None for other inputs: strings and lists could be multiplied, too."""
    inputs = msgspec.json.decode(text, type=list[Any])
    return [shape if isinstance(shape, list) and all(type(size) is int for size in shape) else None for shape in inputs]


def counted_twice(flops: Ints, names: Ints, texts: Sequence[str], tree: Tree) -> Flags:
    """Flag operators counted only by the added formulas, where an enclosing or enclosed one counts the same products.

    A convolution is three nested operators, and may contain matrix products, which torch counts.

    Args:
        flops: The operations of each event, 0 or less for none.
        names: The name of each event, an index into `texts`.
        texts: The distinct names.
        tree: Nesting of the events.
    """
    added = (flops > 0) & np.array([text in _ADDED_FORMULAS for text in texts], np.bool_)[names]
    product = (flops > 0) & np.array([text in _PRODUCT_FORMULAS for text in texts], np.bool_)[names]
    has_product_inside = np.zeros(len(flops), np.bool_)
    for rows, parents in reversed(list(tree.below_roots())):
        has_product_inside[parents[product[rows] | has_product_inside[rows]]] = True
    counted = product | (added & ~has_product_inside)
    counted_row = tree.inherit(np.where(counted, np.arange(len(flops)), -1), outermost=True)
    flags: Flags = added & (counted_row != np.arange(len(flops)))
    return flags


def _elementwise(shapes: list[Shape], _: Sequence[Any]) -> int:
    return prod(shapes[0])


def _mm(shapes: list[Shape], _: Sequence[Any]) -> int:
    left, right = shapes[:2]
    return 2 * prod(left) * prod(right) // left[-1]


def _addmm(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    return _mm(shapes[1:], inputs)


def _bmm(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    return _mm(shapes, inputs) // shapes[0][0]


def _baddbmm(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    return _bmm(shapes[1:], inputs)


def _conv(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    """Count a convolution: every weight is multiplied once per output position."""
    (batch, _, *size), (_, _, *kernel) = shapes[:2]
    if len(size) != len(kernel):  # without a batch; the operators inside have one
        return 0
    stride, padding, dilation = (msgspec.json.decode(text, type=Shape) for text in inputs[3:6])
    output: Shape = [
        (width + 2 * pad - dilated * (window - 1) - 1) // step + 1
        for width, window, step, pad, dilated in zip(size, kernel, stride, padding, dilation, strict=True)
    ]
    return 2 * batch * prod(output) * prod(shapes[1])


def _conv_transpose(shapes: list[Shape], _: Sequence[Any]) -> int:
    """Count a transposed convolution: every weight is multiplied once per input position."""
    images, weight = shapes[:2]
    return 2 * prod(images) * prod(weight[1:]) if len(images) == len(weight) else 0


def _convolution(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    return (_conv_transpose if inputs[6] == "True" else _conv)(shapes, inputs)


def _mkldnn_convolution(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    padding, stride, dilation = inputs[3:6]
    return _conv(shapes, [*inputs[:3], stride, padding, dilation])


def _convolution_backward(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    """Count the gradients of input and weight, each as costly as the convolution; the gradient of the bias is a sum."""
    output_gradient, images, weight = shapes[:3]
    for_input, for_weight, _ = msgspec.json.decode(inputs[10].lower(), type=tuple[bool, bool, bool])
    each = _conv_transpose([images if inputs[7] == "True" else output_gradient, weight], inputs)
    return (for_input + for_weight) * each


def _attention(shapes: list[Shape], _: Sequence[Any]) -> int:
    return _score_flops(shapes[0], shapes[1]) * (shapes[0][3] + shapes[2][3])


def _attention_backward(shapes: list[Shape], _: Sequence[Any]) -> int:
    """Count the recomputed scores, and the gradients of the two factors of the scores and of the result."""
    _, query, key, value = shapes[:4]
    return _score_flops(query, key) * (3 * query[3] + 2 * value[3])


def _score_flops(query: Shape, key: Shape) -> int:
    """Return twice the number of scores, including those that a mask excludes."""
    batch, heads, tokens, _ = query
    return 2 * batch * heads * tokens * key[2]


def _rnn_layer(shapes: list[Shape], _: Sequence[Any]) -> int:
    sequence, input_weight, state_weight = shapes[:3]
    return 2 * prod(sequence[:-1]) * (prod(input_weight) + prod(state_weight))


def _rnn_layer_backward(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    return 2 * _rnn_layer(shapes, inputs)


_ATTENTION = [
    f"aten::_scaled_dot_product_{kernel}"
    for kernel in ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")
]
_PRODUCT_FORMULAS = {
    "aten::conv2d": _conv,
    "aten::mm": _mm,
    "aten::addmm": _addmm,
    "aten::bmm": _bmm,
    "aten::baddbmm": _baddbmm,
}
_TORCH_FORMULAS = {**_PRODUCT_FORMULAS, "aten::mul": _elementwise, "aten::add": _elementwise}
_ADDED_FORMULAS = {
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
