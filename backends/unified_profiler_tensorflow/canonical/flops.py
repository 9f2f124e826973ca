"""Computes the floating-point operations of a node from its recorded shapes and its attributes in the live graph.

TensorFlow's profilers report none. Only matrix products and convolutions are counted, with one multiplication and one
addition for each pair of numbers; biases and activations that are fused with them are not. If shapes and attributes
allow more than one result, there is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from math import isqrt, prod
from typing import NamedTuple

import msgspec

from unified_profiler_tensorflow.read.live_objects import Details

Shape = list[int]

_VARIANT = re.compile(r"^_*(Mkl)?(Native)?(Fused)?(?=\w)|(WithBias)?(V\d+)?$")
_FLOATS = frozenset({"float", "half", "bfloat16", "double"})
_SPATIAL = {"NHWC": slice(1, 3), "NCHW": slice(2, 4), "NDHWC": slice(1, 4), "NCDHW": slice(2, 5)}
_OTHER_DIMENSIONS = "..."


class RecordedShapes(NamedTuple):
    """The shapes of a node's inputs and, if recorded, of its first output."""

    inputs: Sequence[Shape]
    output: Shape | None = None


Formula = Callable[[RecordedShapes, Details], "int | None"]


def flops_of(
    op_type: str,
    shapes: str | None,
    types: str | None,
    *,
    outputs: str | None = None,
    details: Collection[Details] = (),
) -> int | None:
    """Return the floating-point operations of a node; None if they are not counted or unknown.

    Args:
        op_type: The type of the node.
        shapes: The shapes of its inputs, JSON.
        types: Their types, JSON.
        outputs: The shapes of its outputs, JSON; None where they were not recorded.
        details: The attributes of all graph nodes of its name.
    """
    formula = _FORMULAS.get(_VARIANT.sub("", op_type))
    if formula is None or not shapes or not _FLOATS.intersection(msgspec.json.decode(types or "[]")):
        return None
    recorded = RecordedShapes(msgspec.json.decode(shapes), (msgspec.json.decode(outputs or "[]") or [None])[0])
    results = {_evaluate(formula, recorded, each) for each in details} - {None}
    results = results or {_evaluate(formula, recorded, {})}
    return results.pop() if len(results) == 1 else None


def _evaluate(formula: Formula, recorded: RecordedShapes, details: Details) -> int | None:
    try:
        return formula(recorded, details)
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):  # details or shapes of another node
        return None


def _product(recorded: RecordedShapes, details: Details) -> int | None:
    (*left_batch, rows, columns), (*right_batch, lower, upper) = recorded.inputs[:2]
    inner = _inner_size(recorded, details, (rows, columns), (lower, upper))
    if inner is None:
        return None
    return 2 * prod(_broadcast(left_batch, right_batch)) * rows * columns * lower * upper // inner


def _inner_size(
    recorded: RecordedShapes, details: Details, left: tuple[int, int], right: tuple[int, int]
) -> int | None:
    """Return the size of the dimension that is summed over: either of a matrix, since each may be transposed."""
    result = recorded.output or details.get("result")
    if result:
        return _inner_size_from(prod(left) * prod(right), prod(result[-2:]))
    if "transpose_a" in details or "adj_x" in details:
        side = left[0] if details.get("transpose_a") or details.get("adj_x") else left[1]
        other = right[1] if details.get("transpose_b") or details.get("adj_y") else right[0]
        return side if side == other else None
    both = set(left) & set(right)
    if len(both) == 1:
        return both.pop()
    (width,) = recorded.inputs[2]  # the bias of a fused product has the width of its result
    return prod(right) // width if width in right else None


def _inner_size_from(inputs: int, result: int) -> int | None:
    """Return the inner size, given the number of elements of both matrices, multiplied, and of their product."""
    square, rest = divmod(inputs, result)
    side = isqrt(square)
    return side if not rest and side * side == square else None


def _einsum(recorded: RecordedShapes, details: Details) -> int | None:
    """Count one product for each combination of indices in the equation, and an addition if any index is summed."""
    terms, _, result = details["equation"].replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    others: Shape = []
    if len(terms := terms.split(",")) != 2:
        return None
    for term, shape in zip(terms, recorded.inputs, strict=True):
        before, dots, after = term.partition(_OTHER_DIMENSIONS)
        end = len(shape) - len(after)
        others = _broadcast(others, shape[len(before) : end]) if dots else others
        sizes |= dict(zip(before + after, [*shape[: len(before)], *shape[end:]], strict=True))
    return prod([*sizes.values(), *others]) * (2 if set(sizes) - set(result) else 1)


def _convolution(recorded: RecordedShapes, details: Details, *, depthwise: bool = False) -> int | None:
    image, filters = recorded.inputs[:2]
    if recorded.output is not None:
        return _convolution_flops(recorded.output, filters, depthwise=depthwise)
    if details.get("filter", filters) != filters or len(image) != len(filters):
        return None  # details of another node with the same name
    return 2 * image[0] * prod(_output_sizes(image, filters, details)) * prod(filters)


def _image_gradient(recorded: RecordedShapes, _: Details, *, depthwise: bool = False) -> int:
    filters, gradient = recorded.inputs[1:3]
    return _convolution_flops(gradient, filters, depthwise=depthwise)


def _filter_gradient(recorded: RecordedShapes, details: Details, *, depthwise: bool = False) -> int:
    return _convolution_flops(recorded.inputs[2], recorded.output or details["filter"], depthwise=depthwise)


def _convolution_flops(result: Shape, filters: Shape, *, depthwise: bool) -> int:
    """Count the whole filter at each position of the result."""
    channels = filters[-1] * filters[-2] if depthwise else filters[-1]
    return 2 * prod(result) // channels * prod(filters)


def _output_sizes(image: Shape, filters: Shape, details: Details) -> Shape:
    """Return the spatial sizes (height, width, ...) of the result of a convolution."""
    spatial, all_ones = _SPATIAL[details["data_format"]], [1] * len(image)
    strides, dilations = details["strides"][spatial], details.get("dilations", all_ones)[spatial]
    if details["padding"] == "SAME":
        return [-(-size // stride) for size, stride in zip(image[spatial], strides, strict=True)]
    padding = details.get("explicit_paddings") or [0, 0] * len(image)
    padded = [size + sum(padding[2 * axis : 2 * axis + 2]) for axis, size in enumerate(image)][spatial]
    widths = [(width - 1) * dilation + 1 for width, dilation in zip(filters, dilations, strict=False)]
    axes = zip(padded, widths, strides, strict=True)
    return [max(0, (size - width) // stride + 1) for size, width, stride in axes]


def _broadcast(left: Shape, right: Shape) -> Shape:
    short, long = sorted((left, right), key=len)
    return [max(a, b) for a, b in zip([1] * (len(long) - len(short)) + short, long, strict=True)]


_FORMULAS: dict[str, Formula] = {
    "MatMul": _product,
    "BatchMatMul": _product,
    "Einsum": _einsum,
    "Conv2D": _convolution,
    "Conv3D": _convolution,
    "Conv2DBackpropInput": _image_gradient,
    "Conv3DBackpropInput": _image_gradient,
    "Conv2DBackpropFilter": _filter_gradient,
    "Conv3DBackpropFilter": _filter_gradient,
    "DepthwiseConv2dNative": partial(_convolution, depthwise=True),
    "DepthwiseConv2dNativeBackpropInput": partial(_image_gradient, depthwise=True),
    "DepthwiseConv2dNativeBackpropFilter": partial(_filter_gradient, depthwise=True),
}
