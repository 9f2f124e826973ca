"""A fake framework in a module of its own, and the surface that traces its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from unified_profiler.spi import ApiTracer

SOURCE = """
def square(x): return x * x
def sqrt(x): return x ** 0.5
def norm(x): return sqrt(square(x))
def apply(function, x): return function(x)
def fail(): raise ValueError("no")

class Module:
    def __init__(self, **parts): self.parts = parts
    def __call__(self, x): return self.forward(x)

class Twice(Module):
    def forward(self, x): return norm(x) + norm(x)
"""


class FakeSurface:
    """The surface of a module `madeup`, which it creates.

    Attributes:
        module: The framework: functions that call each other, and modules.
        waited: Number of waits for queued work.
        broken: Whether the queued work fails.
        fails: Whether installing the surface fails.
    """

    packages = frozenset({"madeup"})
    machinery: Mapping[str, int] = {}

    def __init__(self, *, fails: bool = False) -> None:
        self.module: Any = ModuleType("madeup")
        exec(SOURCE, vars(self.module))  # noqa: S102  the text above
        self.waited, self.broken = 0, False
        self.fails = fails

    def names(self) -> Iterable[str]:
        """Return the names of all functions that can be traced."""
        return [f"madeup.{name}" for name in ("square", "sqrt", "norm", "apply", "fail", "Twice")]

    def install(self, tracer: ApiTracer) -> None:
        """Trace all functions and modules."""
        if tracer.wants_calls:
            for name, value in vars(self.module).items():
                if isinstance(value, FunctionType):
                    tracer.function(value, f"madeup.{name}")
        tracer.module_call(self.module.Module.__call__)
        if self.fails:
            msg = "unknown version of the framework"
            raise RuntimeError(msg)

    def value_texts(self) -> Mapping[type, Callable[[Any], str]]:
        """Return no functions, since the framework has no values of its own."""
        return {}

    def module_name(self, module: Any) -> str | None:
        """Return the name of the framework's own modules."""
        return f"madeup.{type(module).__name__}" if type(module).__module__ == "madeup" else None

    def submodules(self, module: Any) -> Iterator[tuple[str, Any]]:
        """Return the parts of a module."""
        yield from module.parts.items()

    def synchronize(self) -> None:
        """Count the wait, and fail if the work is broken."""
        self.waited += 1
        if self.broken:
            msg = "the work failed"
            raise ArithmeticError(msg)
