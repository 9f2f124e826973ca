"""Floating-point operations of an operator from its recorded inputs, by the formulas torch itself uses.

The Kineto file does not hold them. Everything else torch leaves at zero, and so does this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import msgspec

Shape = list[int]


def flops_of(name: str, shapes: str | None, concrete: str | None) -> int | None:
    """Return the floating-point operations of one call, or None where torch counts none.

    Args:
        name: The operator.
        shapes: Its input shapes, JSON.
        concrete: Its concrete inputs, JSON; needed for convolutions.
    """
    formula = _FORMULAS.get(name)
    if formula is None or shapes is None:
        return None
    try:
        return formula(msgspec.json.decode(shapes), msgspec.json.decode(concrete or "[]")) or None
    except (IndexError, TypeError, ValueError, ZeroDivisionError, msgspec.DecodeError):
        return None


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


def _conv2d(shapes: list[Shape], inputs: Sequence[Any]) -> int:
    batch, channels, *size = shapes[0]
    filters, _, *kernel = shapes[1]
    stride, padding, dilation, groups = (msgspec.json.decode(text) for text in inputs[3:7])
    out = [(size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in (0, 1)]
    flops: int = 2 * batch * prod(out) * prod(kernel) * channels * filters // groups
    return flops


_FORMULAS = {
    "aten::conv2d": _conv2d,
    "aten::mm": _mm,
    "aten::addmm": _addmm,
    "aten::bmm": _bmm,
    "aten::baddbmm": _baddbmm,
    "aten::mul": _elementwise,
    "aten::add": _elementwise,
}
