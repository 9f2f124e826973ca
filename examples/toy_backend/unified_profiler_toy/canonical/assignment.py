"""Op, origin and direction of an event."""

from __future__ import annotations

from unified_profiler.spi.canonical import BACKWARD, FORWARD, OPTIMIZER, UPDATE, load_canonical

TABLES = load_canonical("unified_profiler_toy")


def assignment(name: str) -> tuple[str | None, str | None, str]:
    """Return the three columns for a native name; the origin of `relu_backward` is what `relu` is."""
    op, origin = TABLES.kernel.find(name), TABLES.kernel.find(name.removesuffix("_backward"))
    direction = UPDATE if op == OPTIMIZER else BACKWARD if name.endswith("_backward") else FORWARD
    return op, origin, direction
