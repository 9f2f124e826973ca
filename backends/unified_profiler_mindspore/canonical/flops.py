"""Floating-point operations of kernels on the host, from the shapes that were recorded.

Counted are convolutions, products of matrices, additions and multiplications, as PyTorch counts them. A kernel's input
shapes do not always tell: whether an operand of a product is transposed, how a convolution strides. Then the graph
tells, where it is known, or another kernel of the same layer; where none does, there is no number.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from math import isqrt, prod

from unified_profiler_mindspore.canonical.graph_locations import Launched
from unified_profiler_mindspore.read.graph_ir import Shape
from unified_profiler_mindspore.read.note import OperatorCall

Shapes = tuple[Shape, ...]


def tensors(text: str | None) -> Shapes:
    """Return the shapes of tensors among a kernel's inputs, given as JSON."""
    return tuple(tuple(shape) for shape in json.loads(text or "[]") if isinstance(shape, list))


def flops(launched: Sequence[int], kernels: Sequence[Launched], shapes: Sequence[str | None]) -> list[int | None]:
    """Return the floating-point operations of each launch, None where they are not known or not counted.

    Args:
        launched: The kernel of each launch, as a number.
        kernels: What is known of each.
        shapes: The input shapes of each launch, as JSON.
    """
    cases = {(number, text): tensors(text) for number, text in zip(launched, shapes, strict=True)}
    layers = _Convolutions([(kernels[number].node.type, of) for (number, _), of in cases.items()])
    found = {case: _of(kernels[case[0]], of, layers) for case, of in cases.items()}
    return [found[case] for case in zip(launched, shapes, strict=True)]


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
    return 2 * size * (_shared(left, right, call.result) if call.operator in _TRANSPOSING else left[-1])


def _shared(left: Shape, right: Shape, result: Shape) -> int:
    """Return the dimension that both operands of a product share, whichever of them is transposed."""
    return isqrt(prod(left[-2:]) * prod(right[-2:]) // max(prod(result[-2:]), 1))


def _of(kernel: Launched, shapes: Shapes, layers: _Convolutions) -> int | None:
    if any(size < 0 for shape in shapes for size in shape):
        return None
    kind, result = kernel.node.type, _result(kernel, shapes)
    if kind in _BY_LAYER and len(shapes) > 1:
        return _BY_LAYER[kind](shapes, result, layers)
    if kind in _PRODUCTS and len(shapes) > 1:
        plain = kernel.node.expanded_from == "MatMulExt"  # transposes its operands by kernels of their own
        return _product(shapes[0], shapes[1], result, plain=plain)
    return _largest(shapes) if kind in _ELEMENTWISE and shapes else None


def _result(kernel: Launched, shapes: Shapes) -> Shape | None:
    """Return the shape of what comes out, if the graph tells; of a piece it only knows the whole."""
    if kernel.place is None or kernel.node.expanded_from or shapes != kernel.shapes:
        return None
    shape = kernel.place.operator.shape
    return None if shape is None or any(size < 0 for size in shape) else shape


# --- products of matrices ---------------------------------------------------------------------------------------------

_PRODUCTS = frozenset({"MatMul", "BatchMatMul", "MatMulExt", "BatchMatMulExt", "Dense"})
_TRANSPOSING = frozenset({"MatMul", "BatchMatMul"})
"""Operators that transpose their operands on demand; the others take the last dimension of the first."""


def _product(left: Shape, right: Shape, result: Shape | None, *, plain: bool) -> int | None:
    """Count a product: twice the size of the result times the dimension that both operands share.

    Without the result, the shared dimension may be any two of the same size; there is an answer if all give the same.
    """
    if len(left) < 2 or len(right) < 2 or left[:-2] != right[:-2]:
        return None
    if not prod(left) or not prod(right):
        return 0
    if result is not None and len(result) == len(left):
        return 2 * prod(result) * _shared(left, right, result)
    pairs = [(left[-1], right[-2])] if plain else [(one, other) for one in left[-2:] for other in right[-2:]]
    found = {2 * prod(left) * prod(right[-2:]) // one for one, other in pairs if one == other}
    return found.pop() if len(found) == 1 else None


# --- convolutions -----------------------------------------------------------------------------------------------------


class _Convolutions:
    """Shapes of convolutions that other kernels of the same layer tell, where all of them tell the same."""

    def __init__(self, kernels: Sequence[tuple[str, Shapes]]) -> None:
        self._results: dict[tuple[Shape, int], set[Shape]] = defaultdict(set)
        self._filters: dict[tuple[Shape, int], set[Shape]] = defaultdict(set)
        for kind, shapes in kernels:
            if kind == "Conv2DBackpropFilter" and len(shapes) > 1:
                gradient, images = shapes[:2]
                self._results[images, gradient[1]].add(gradient)
            if kind == "Conv2D" and len(shapes) > 1:
                images, filters = shapes[:2]
                self._filters[images, filters[0]].add(filters)

    def result(self, images: Shape, filters: Shape) -> Shape | None:
        """Return the shape of a convolution's result, by the gradient that it gets."""
        return self._only(images, filters[0], self._results)

    def filters(self, images: Shape, gradient: Shape) -> Shape | None:
        """Return the shape of a convolution's filters, by its forward kernel."""
        return self._only(images, gradient[1], self._filters)

    def _only(self, images: Shape, count: int, of: dict[tuple[Shape, int], set[Shape]]) -> Shape | None:
        """Return what is told of layers with these images and number of filters, if they are of one kind."""
        key = images, count
        alike = len(self._results[key]) == 1 and len(self._filters[key]) == 1
        return next(iter(of[key])) if alike else None


def _forward(shapes: Shapes, result: Shape | None, layers: _Convolutions) -> int | None:
    images, filters = shapes[:2]
    return _convolution(result or layers.result(images, filters), filters)


def _gradient_of_filters(shapes: Shapes, result: Shape | None, layers: _Convolutions) -> int | None:
    gradient, images = shapes[:2]
    return _convolution(gradient, result or layers.filters(images, gradient))


def _gradient_of_images(shapes: Shapes, _: Shape | None, __: _Convolutions) -> int | None:
    gradient, filters = shapes[:2]
    return _convolution(gradient, filters)


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


def _largest(shapes: Shapes) -> int:
    """Count one operation for each element of what comes out: of operands that are stretched to the same shape."""
    rank = max(map(len, shapes))
    return prod(max(sizes) for sizes in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True))
