"""Counts floating-point operations of kernels on the host from the recorded shapes.

Convolutions, matrix products, additions and multiplications are counted as PyTorch counts them. Input shapes alone may
leave open whether an operand of a product is transposed, or the stride of a convolution. Then the recorded graph or
another kernel of the same layer decides; without either there is no count.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from math import isqrt, prod

from unified_profiler_mindspore.canonical.graph_locations import Kernel
from unified_profiler_mindspore.read.graph_ir import Shape
from unified_profiler_mindspore.read.note import OperatorCall

Shapes = tuple[Shape, ...]


def tensor_shapes(text: str | None) -> Shapes:
    """Return the shapes of tensors among a kernel's inputs, given as JSON."""
    return tuple(tuple(shape) for shape in json.loads(text or "[]") if isinstance(shape, list))


def flops(launches: Sequence[int], kernels: Sequence[Kernel], shapes: Sequence[str | None]) -> list[int | None]:
    """Return the floating-point operations of each launch, None where they are not known or not counted.

    Args:
        launches: Index of the kernel of each launch.
        kernels: The distinct kernels.
        shapes: The input shapes of each launch, as JSON.
    """
    cases = {(index, text): tensor_shapes(text) for index, text in zip(launches, shapes, strict=True)}
    layers = _Convolutions([(kernels[index].node.type, inputs) for (index, _), inputs in cases.items()])
    counts = {case: _count(kernels[case[0]], inputs, layers) for case, inputs in cases.items()}
    return [counts[case] for case in zip(launches, shapes, strict=True)]


def flops_of_call(call: OperatorCall, kernel: str) -> int | None:
    """Return the floating-point operations of a kernel, given the operator that launched it, None if not counted."""
    size = prod(call.result)
    if kernel in _ELEMENTWISE:
        return size
    left, right = call.inputs[:2]
    if left is None or right is None:
        return None
    if kernel == "Conv2D":
        return _convolution(call.result, right)
    return 2 * size * (_inner_size(left, right, call.result) if call.operator in _TRANSPOSING else left[-1])


def _count(kernel: Kernel, shapes: Shapes, layers: _Convolutions) -> int | None:
    if any(size < 0 for shape in shapes for size in shape):
        return None
    kernel_type, result = kernel.node.type, _result_shape(kernel, shapes)
    if kernel_type in _BY_LAYER and len(shapes) > 1:
        return _BY_LAYER[kernel_type](shapes, result, layers)
    if kernel_type in _PRODUCTS and len(shapes) > 1:
        # MatMulExt transposes its operands with kernels of their own.
        is_plain = kernel.node.expanded_from == "MatMulExt"
        return _product(shapes[0], shapes[1], result, is_plain=is_plain)
    return _broadcast_size(shapes) if kernel_type in _ELEMENTWISE and shapes else None


def _result_shape(kernel: Kernel, shapes: Shapes) -> Shape | None:
    """Return the result shape from the graph, which for an expanded operator only has that of the whole."""
    if kernel.location is None or kernel.node.expanded_from or shapes != kernel.shapes:
        return None
    shape = kernel.location.operator.shape
    return None if shape is None or any(size < 0 for size in shape) else shape


# --- matrix products --------------------------------------------------------------------------------------------------

_PRODUCTS = frozenset({"MatMul", "BatchMatMul", "MatMulExt", "BatchMatMulExt", "Dense"})
_TRANSPOSING = frozenset({"MatMul", "BatchMatMul"})
"""Operators that transpose their operands on demand; the others contract the last dimension of the first."""


def _product(left: Shape, right: Shape, result: Shape | None, *, is_plain: bool) -> int | None:
    """Count a product: twice the size of the result times the inner dimension.

    Without the result, any two dimensions of the same size may be the inner one; there is a count if all give the same.
    """
    if len(left) < 2 or len(right) < 2 or left[:-2] != right[:-2]:
        return None
    if not prod(left) or not prod(right):
        return 0
    if result is not None and len(result) == len(left):
        return 2 * prod(result) * _inner_size(left, right, result)
    inner_sizes = {left[-1]} & {right[-2]} if is_plain else {*left[-2:]} & {*right[-2:]}
    counts = {2 * prod(left) * prod(right[-2:]) // size for size in inner_sizes}
    return counts.pop() if len(counts) == 1 else None


def _inner_size(left: Shape, right: Shape, result: Shape) -> int:
    """Return the size of the inner dimension of a product, whichever operand is transposed."""
    return isqrt(prod(left[-2:]) * prod(right[-2:]) // max(prod(result[-2:]), 1))


# --- convolutions -----------------------------------------------------------------------------------------------------


class _Convolutions:
    """Shapes of convolutions taken from other kernels of the same layer, where all of them agree."""

    def __init__(self, kernels: Sequence[tuple[str, Shapes]]) -> None:
        self._results: dict[tuple[Shape, int], set[Shape]] = defaultdict(set)
        self._filters: dict[tuple[Shape, int], set[Shape]] = defaultdict(set)
        for kernel_type, shapes in kernels:
            if kernel_type == "Conv2DBackpropFilter" and len(shapes) > 1:
                gradient, images = shapes[:2]
                self._results[images, gradient[1]].add(gradient)
            if kernel_type == "Conv2D" and len(shapes) > 1:
                images, filters = shapes[:2]
                self._filters[images, filters[0]].add(filters)

    def result(self, images: Shape, filters: Shape) -> Shape | None:
        """Return the shape of a convolution's result, which is that of its gradient."""
        return self._unambiguous(images, filters[0], self._results)

    def filters(self, images: Shape, gradient: Shape) -> Shape | None:
        """Return the shape of a convolution's filters, an input of its forward kernel."""
        return self._unambiguous(images, gradient[1], self._filters)

    def _unambiguous(self, images: Shape, count: int, shapes: dict[tuple[Shape, int], set[Shape]]) -> Shape | None:
        """Return the shape for these images and number of filters, if all layers with them are alike."""
        key = images, count
        return next(iter(shapes[key])) if len(self._results[key]) == len(self._filters[key]) == 1 else None


def _forward(shapes: Shapes, result: Shape | None, layers: _Convolutions) -> int | None:
    images, filters = shapes[:2]
    return _convolution(result or layers.result(images, filters), filters)


def _gradient_of_filters(shapes: Shapes, result: Shape | None, layers: _Convolutions) -> int | None:
    gradient, images = shapes[:2]
    return _convolution(gradient, result or layers.filters(images, gradient))


def _gradient_of_images(shapes: Shapes, _: Shape | None, __: _Convolutions) -> int | None:
    return _convolution(*shapes[:2])


def _convolution(result: Shape | None, filters: Shape | None) -> int | None:
    """Count a convolution; filters are [count, channels of a group, height, width]."""
    return None if result is None or filters is None else 2 * prod(result) * prod(filters[1:])


_BY_LAYER: dict[str, Callable[[Shapes, Shape | None, _Convolutions], int | None]] = {
    "Conv2D": _forward,
    "Conv2DBackpropFilter": _gradient_of_filters,
    "Conv2DBackpropInput": _gradient_of_images,
}

# --- elementwise ------------------------------------------------------------------------------------------------------

_ELEMENTWISE = frozenset({"Add", "AddExt", "Mul", "Muls"})


def _broadcast_size(shapes: Shapes) -> int:
    """Count one operation for each element of the result, whose shape is that of the broadcast operands."""
    rank = max(map(len, shapes))
    return prod(max(sizes) for sizes in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True))
