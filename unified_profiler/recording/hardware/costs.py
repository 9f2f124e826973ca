"""Limits the CPU time of sampling: expensive sources are read less often."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unified_profiler.recording.hardware.readings import Source

BUDGET_NS = 400_000
"""Average CPU time that a reading may take, including waking the thread: 0.4 % of a core at the default 10 Hz. If it
takes more, expensive sources are read less often; if that is not enough, all of them are."""


def fair_share(sources: Sequence[Source], budget_ns: float) -> float:
    """Return the CPU time per reading that each expensive source may take: equal shares of what cheaper ones leave."""
    costs = sorted((source.cost_ns or 0) / source.every for source in sources if not source.failed)
    remaining_ns = max(budget_ns, BUDGET_NS / 4)
    for index, cost_ns in enumerate(costs):
        fair_ns = remaining_ns / (len(costs) - index)
        if cost_ns > fair_ns:
            return fair_ns
        remaining_ns -= cost_ns
    return math.inf


def average(before_ns: float | None, spent_ns: float) -> float:
    """Return a moving average. The first value is ignored, since the first reading opens files and libraries."""
    return 0.0 if before_ns is None else before_ns + (spent_ns - before_ns) / 8
