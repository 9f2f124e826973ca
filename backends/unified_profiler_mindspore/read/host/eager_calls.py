"""Matches operators that PyNative mode dispatched with the kernels that they launched.

MindSpore's profiler records no shapes of these kernels; the operators have them (`dispatch_observer.py`). Each operator
listed here launches one kernel of a family, in the order of dispatch. So if there are as many kernels of a family as
operators, there are no kernels of any other origin among them; if there are more, none of them can be matched.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from unified_profiler_mindspore.read.note import OperatorCall

_PRODUCT = "product"
_FAMILY_OF_KERNEL = {
    "MatMul": _PRODUCT,
    "BatchMatMul": _PRODUCT,
    "BatchMatMulExt": _PRODUCT,
    "Add": "Add",
    "AddExt": "AddExt",
    "Mul": "Mul",
    "Conv2D": "Conv2D",
}
_FAMILIES_OF_OPERATOR = {
    **{kernel: (family,) for kernel, family in _FAMILY_OF_KERNEL.items()},
    "MatMulExt": (_PRODUCT,),
    "Dense": (_PRODUCT, "Add"),
    "Muls": ("Mul",),
}
"""The kernels that an operator launches. `Dense` adds a bias only if there is one."""

OBSERVED = frozenset(_FAMILIES_OF_OPERATOR)
"""Operators to note while recording."""

Family: TypeAlias = tuple[str, str | None]
"""What kernels are counted by: the shapes, too, where MindSpore's profiler recorded them."""


def calls_of_launches(
    kernels: Sequence[str], shapes: Sequence[str | None], calls: Sequence[OperatorCall]
) -> list[OperatorCall | None]:
    """Return the operator that launched each kernel, None where it is not certain.

    Args:
        kernels: The type of each launched kernel.
        shapes: The input shapes that MindSpore recorded for each, as JSON.
        calls: The operators in the order in which they were dispatched.
    """
    launches: dict[Family, list[int]] = defaultdict(list)
    for launch, (kernel, recorded) in enumerate(zip(kernels, shapes, strict=True)):
        if kernel in _FAMILY_OF_KERNEL and (recorded is None) == (kernel != "Conv2D"):
            launches[_FAMILY_OF_KERNEL[kernel], recorded].append(launch)
    expected: dict[Family, list[OperatorCall]] = defaultdict(list)
    for call in calls:
        for family in _families(call):
            expected[family].append(call)
    matches: list[OperatorCall | None] = [None] * len(kernels)
    for family, some in launches.items():
        operators = expected[family]
        if len(operators) == len(some) and all(map(_fits, operators, (kernels[launch] for launch in some))):
            for launch, call in zip(some, operators, strict=True):
                matches[launch] = call
    return matches


def _families(call: OperatorCall) -> Iterator[Family]:
    for family in _FAMILIES_OF_OPERATOR.get(call.operator, ()):
        if family == "Conv2D":
            yield family, _text(call.inputs)
        elif call.operator != "Dense" or family == _PRODUCT or _has_bias(call):
            yield family, None


def _has_bias(call: OperatorCall) -> bool:
    return len(call.inputs) > 2 and call.inputs[2] is not None


def _fits(call: OperatorCall, kernel: str) -> bool:
    """Check that an operator that is a kernel, too, launched that kernel."""
    return call.operator == kernel or call.operator not in _FAMILY_OF_KERNEL


def input_shapes(call: OperatorCall, kernel: str) -> str | None:
    """Return the input shapes of a kernel as JSON, None where the operator may have reshaped its own."""
    if call.operator == kernel:
        return _text(call.inputs)
    operands = call.inputs[:2]
    if _FAMILY_OF_KERNEL[kernel] == _PRODUCT and all(shape is not None and len(shape) == 2 for shape in operands):
        return _text(operands)
    return None


def _text(shapes: Sequence[Sequence[int] | None]) -> str:
    return json.dumps(shapes, separators=(",", ":"))
