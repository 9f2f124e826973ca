from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from unified_profiler.model.trace import Trace
from unified_profiler.testing.builders import TraceBuilder

STEP_NS = 1_000_000
Op = tuple[str, int] | tuple[str, int, dict[str, Any]]


def _trace(
    ops: Sequence[Op],
    *,
    steps: int = 5,
    framework: str = "torch",
    scale: Callable[[int], float] = lambda _: 1,
    **info: Any,
) -> Trace:
    """Repeat operators, one after the other, in each step."""
    builder = TraceBuilder(
        frameworks={framework: "1"}, first_step=0 if steps else None, last_step=steps - 1 if steps else None, **info
    )
    for step in range(max(steps, 1)):
        at = step * STEP_NS
        if steps:
            builder.step(step, at, STEP_NS)
        for name, duration, *columns in ops:
            took = int(duration * scale(step))
            builder.op(name, at, took, framework=framework, **(columns[0] if columns else {}))
            at += took
    return builder.build()


@pytest.fixture(scope="session")
def steps_of() -> Callable[..., Trace]:
    """Make a trace of operators, each a name, a duration and columns, which repeat in each step."""
    return _trace
