"""Names the functions that PyTorch passes to a function mode as they are called in user code."""

from __future__ import annotations

import dis
from types import CodeType, FrameType
from typing import Any

import torch
from torch.overrides import handle_torch_function

from unified_profiler.model.api_names import api_name

COMPUTED_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})
"""Tensor attributes that run operators; reading any other attribute is not a call."""

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
"""Operator methods by the tensor method that a function mode receives for them."""

_OPERATOR_OPCODES = frozenset(
    number for name, number in dis.opmap.items() if name.startswith(("BINARY_", "INPLACE_", "UNARY_", "COMPARE_"))
)
_DESCRIPTOR_METHODS = frozenset({"__get__", "__set__", "__delete__"})


def function_name(function: Any) -> str | None:
    """Return the public name of a function that a mode received, None if it is not a call of the API."""
    name = getattr(function, "__name__", "")
    if name in _DESCRIPTOR_METHODS:
        attribute = getattr(function.__self__, "__name__", "")
        return f"torch.Tensor.{attribute}" if attribute in COMPUTED_ATTRIBUTES else None
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return _custom_name(function)
    if getattr(torch, name, None) == function:
        return f"torch.{name}"
    if getattr(function, "__objclass__", None) is torch._C.TensorBase:
        return f"torch.Tensor.{name}"
    name = api_name(function)
    return None if name.startswith("torch._") else name


def _custom_name(function: Any) -> str | None:
    """Name a function of `torch.ops`, None for the functions that torch's own profiler uses."""
    name = str(getattr(function, "overloadpacket", function)).replace("::", ".")
    return None if name.startswith("profiler.") else f"torch.ops.{name}"


def operator_name(function: Any) -> str | None:
    """Return the name of the operator that calls this method, None if there is none."""
    if getattr(function, "__objclass__", None) is not torch._C.TensorBase:
        return None
    operator = OPERATORS.get(function.__name__)
    return None if operator is None else f"torch.Tensor.{operator}"


class OperatorDetector:
    """Distinguishes operators from method calls, which pass a mode the same function, by the caller's instruction."""

    def __init__(self) -> None:
        self._cache: dict[tuple[int, int], tuple[CodeType, bool]] = {}

    def is_operator(self, frame: FrameType) -> bool:
        """Return whether the frame that called the mode is executing an operator."""
        code, offset = frame.f_code, frame.f_lasti
        if code is handle_torch_function.__code__:
            return True  # of these methods only operators are written in Python
        cached = self._cache.get((id(code), offset))
        if cached is None or cached[0] is not code:
            cached = self._cache[id(code), offset] = code, code.co_code[offset] in _OPERATOR_OPCODES
        return cached[1]
