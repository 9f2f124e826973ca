from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from unified_profiler.model.trace import Trace

MakeTrace = Callable[..., Trace]
Rows = list[dict[str, Any]]


def launched(
    call: tuple[int, int], at: tuple[int, int], *, number: int, stream: int = 7, device: str = "cuda:0", **columns: Any
) -> Rows:
    """Return a launch call on the host, and the work that it launched."""
    work = {"name": "kernel", "kind": "kernel", "layer": "runtime", "device": device, "stream": stream, "pid": 0}
    return [
        {"name": "cudaLaunchKernel", "kind": "runtime", "layer": "runtime", "at": call, "correlation_id": number},
        {**work, "tid": stream, "at": at, "correlation_id": number, **columns},
    ]


def step(number: int, at: tuple[int, int]) -> dict[str, Any]:
    return {
        "name": f"step {number}",
        "kind": "step",
        "layer": "application",
        "framework": None,
        "step": number,
        "at": at,
    }


@pytest.fixture(scope="session")
def two_steps(make_trace: MakeTrace) -> Trace:
    """Two steps whose second kernel runs after the end of the step that launched it."""
    return make_trace(
        step(0, (0, 100)),
        step(1, (100, 200)),
        *launched((10, 15), (20, 60), number=1),
        *launched((70, 75), (110, 140), number=2),
        *launched((150, 155), (160, 190), number=3),
    )
