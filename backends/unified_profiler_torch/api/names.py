"""What people call the functions that PyTorch hands to a function mode."""

from __future__ import annotations

import dis
from types import CodeType, FrameType
from typing import Any

import torch
from torch.overrides import handle_torch_function

from unified_profiler.model.api_names import api_name

COMPUTED = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})
"""Attributes of tensors that run operators; all others are only looked up, which is no call."""

OPERATORS = {
    **{name: f"__{name}__" for name in ("add", "sub", "mul", "pow", "matmul", "neg", "lt", "le", "gt", "ge", "ne")},
    **{f"{name}_": f"__i{name}__" for name in ("add", "sub", "mul", "pow")},
    "div": "__truediv__",
    "div_": "__itruediv__",
    "floor_divide_": "__ifloordiv__",
    "remainder": "__mod__",
    "remainder_": "__imod__",
    "positive": "__pos__",
    "bitwise_and": "__and__",
    "bitwise_or": "__or__",
}
"""Methods of tensors that a function mode is given where a program has an operator."""

_OPCODES = frozenset(
    number for name, number in dis.opmap.items() if name.startswith(("BINARY_", "INPLACE_", "UNARY_", "COMPARE_"))
)
_LOOK_UP = frozenset({"__get__", "__set__", "__delete__"})


def function_name(function: Any) -> str | None:
    """Return the name of a function that a mode was given, None for what is no call of the API."""
    name = getattr(function, "__name__", "")
    if name in _LOOK_UP:
        attribute = getattr(function.__self__, "__name__", "")
        return f"torch.Tensor.{attribute}" if attribute in COMPUTED else None
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return _custom_name(function)
    if getattr(torch, name, None) == function:
        return f"torch.{name}"
    if getattr(function, "__objclass__", None) is torch._C.TensorBase:
        return f"torch.Tensor.{name}"
    name = api_name(function)
    return None if name.startswith("torch._") else name


def _custom_name(function: Any) -> str | None:
    """Name what is called by way of `torch.ops`; what torch itself records its profiles by is none of it."""
    packet = getattr(function, "overloadpacket", function)
    name = str(packet).replace("::", ".")
    return None if name.startswith("profiler.") else f"torch.ops.{name}"


def operator_name(function: Any) -> str | None:
    """Return the name of the operator that a method may stand for."""
    if getattr(function, "__objclass__", None) is not torch._C.TensorBase:
        return None
    found = OPERATORS.get(function.__name__)
    return None if found is None else f"torch.Tensor.{found}"


class Operators:
    """Tells operators from methods, which a mode is given as the same function, by the instruction of the caller."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[CodeType, bool]] = {}

    def is_operator(self, frame: FrameType) -> bool:
        """Say whether the frame from which a mode was called is at an operator."""
        code, place = frame.f_code, frame.f_lasti
        if code is handle_torch_function.__code__:
            return True  # of these methods only operators are written in Python
        known = self._known.get((id(code), place))
        if known is None or known[0] is not code:
            known = self._known[id(code), place] = code, code.co_code[place] in _OPCODES
        return known[1]
