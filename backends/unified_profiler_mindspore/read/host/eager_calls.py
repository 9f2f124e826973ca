"""Matches operators that PyNative mode dispatched with the kernels that they launched.

MindSpore's profiler records no shapes of these kernels; `dispatch_observer.py` records those of the operators. Each
operator listed here launches one kernel of a family, in the order of dispatch. Equally many kernels and operators of a
family therefore match one to one; with more kernels than operators, none can be matched.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from unified_profiler_mindspore.read.note import OperatorCall

_PRODUCT = "product"
_FAMILY_OF_KERNEL = {
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulExt"), _PRODUCT),
    **{name: name for name in ("Add", "AddExt", "Mul", "Conv2D")},
}
_FAMILIES_OF_OPERATOR = {
    **{kernel: (family,) for kernel, family in _FAMILY_OF_KERNEL.items()},
    "MatMulExt": (_PRODUCT,),
    "Dense": (_PRODUCT, "Add"),
    "Muls": ("Mul",),
}
"""Families of the kernels that an operator launches. `Dense` adds a bias only if there is one."""

OBSERVED = frozenset(_FAMILIES_OF_OPERATOR)
"""Operators to observe while recording."""

Family: TypeAlias = tuple[str, str | None]
"""Family name, and the input shapes where MindSpore's profiler recorded them."""


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
    for family, family_launches in launches.items():
        operators = expected[family]
        launched = [kernels[launch] for launch in family_launches]
        if len(operators) == len(launched) and all(map(_can_launch, operators, launched)):
            for launch, call in zip(family_launches, operators, strict=True):
                matches[launch] = call
    return matches


def _families(call: OperatorCall) -> Iterator[Family]:
    for family in _FAMILIES_OF_OPERATOR.get(call.operator, ()):
        if family == "Conv2D":
            yield family, _to_json(call.inputs)
        elif call.operator != "Dense" or family == _PRODUCT or _has_bias(call):
            yield family, None


def _has_bias(call: OperatorCall) -> bool:
    return len(call.inputs) > 2 and call.inputs[2] is not None


def _can_launch(call: OperatorCall, kernel: str) -> bool:
    """Return whether an operator may launch a kernel; one that is a kernel itself only launches that kernel."""
    return call.operator == kernel or call.operator not in _FAMILY_OF_KERNEL


def input_shapes(call: OperatorCall, kernel: str) -> str | None:
    """Return the input shapes of a kernel as JSON, None where the operator may have reshaped its inputs."""
    if call.operator == kernel:
        return _to_json(call.inputs)
    operands = call.inputs[:2]
    if _FAMILY_OF_KERNEL[kernel] == _PRODUCT and all(shape is not None and len(shape) == 2 for shape in operands):
        return _to_json(operands)
    return None


def _to_json(shapes: Sequence[Sequence[int] | None]) -> str:
    return json.dumps(shapes, separators=(",", ":"))
