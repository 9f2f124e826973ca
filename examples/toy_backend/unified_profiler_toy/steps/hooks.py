"""Detects the ends of steps in scripts that do not call `step()`: each `SGD.step` ends one."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from unified_profiler.spi import StepHook
from unified_profiler.spi.patching import Invoke, Report, Undo, wrap_method


def step_hooks() -> list[StepHook]:
    """Return the only hook."""
    return [StepHook(signal="optimizer", module="toy_framework", install=_listen)]


def _listen(module: ModuleType, report: Report) -> Undo:
    """Report the optimizer of every step that it has made."""

    def step(invoke: Invoke, optimizer: Any, _arguments: tuple[Any, ...]) -> Any:
        result = invoke()
        report(id(optimizer))
        return result

    return wrap_method(module.SGD, "step", step)
