"""Calls methods of `torch.profiler.profile` without the import of torch.compile.

They import it, which takes seconds, only to read one of its settings. Unless the program has imported it, this setting
has the value of its environment variable.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import torch

_COMPILER = "_inductor"
_SETTING = "TORCHINDUCTOR_CUDAGRAPHS"


def call_without_compiler(method: Callable[[], None]) -> None:
    """Call a method for which `torch` lacks the compiler, unless it is imported already or the setting is on."""
    function = getattr(method, "__func__", None)
    is_needed = f"torch.{_COMPILER}" in sys.modules or os.environ.get(_SETTING) == "1"
    if is_needed or not isinstance(method, MethodType) or not isinstance(function, FunctionType):
        method()
        return
    names = {**function.__globals__, "torch": _TorchWithoutCompiler()}
    FunctionType(function.__code__, names, function.__name__, None, function.__closure__)(method.__self__)


class _TorchWithoutCompiler:
    """The module torch without the compiler."""

    def __getattr__(self, name: str) -> Any:
        if name == _COMPILER:
            raise AttributeError(name)
        return getattr(torch, name)
