"""What reading the hardware may cost, and how that is kept to: what takes long is read less often."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unified_profiler.recording.hardware.readings import Source

BUDGET_NS = 400_000
"""CPU time that a reading may take on the average, waking the thread included: 0.4 % of a core at the usual ten a
second. If it takes more, the costly sources are read less often; and if that is not enough, all of them are."""


def fair_share(sources: Sequence[Source], budget_ns: float) -> float:
    """Return what a source may cost at each reading: of the budget, what the cheaper ones leave to the dearer ones."""
    costs = sorted((source.cost_ns or 0) / source.every for source in sources if not source.failed)
    left_ns = max(budget_ns, BUDGET_NS / 4)
    for place, cost_ns in enumerate(costs):
        fair_ns = left_ns / (len(costs) - place)
        if cost_ns > fair_ns:
            return fair_ns
        left_ns -= cost_ns
    return math.inf


def average(before_ns: float | None, spent_ns: float) -> float:
    """Return a moving average. The first time opens files and libraries, so it tells nothing of the later ones."""
    return 0.0 if before_ns is None else before_ns + (spent_ns - before_ns) / 8
