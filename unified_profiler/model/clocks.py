"""Clock offsets between the ranks of a run, stored in the run directory as `clocks.json`."""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from unified_profiler.model.nesting import Ints
from unified_profiler.model.records import Int64, Number, Record
from unified_profiler.model.schema import SCHEMA_VERSION

CLOCKS = "clocks.json"


class RankClock(Record):
    """Offset and drift of a rank's clock relative to the lowest rank's, with their uncertainty."""

    rank: Number
    ahead_ns: Annotated[float, Field(ge=-(1 << 61), le=1 << 61)] = 0.0
    """Offset at time `at_ns` of this clock."""
    drift: Annotated[float, Field(ge=-0.01, le=0.01)] = 0.0
    """Growth of the offset per unit of time."""
    at_ns: Int64 = 0
    uncertainty_ns: float = 0.0
    """Half the width of the 95 % confidence interval of the offset, where it is widest."""

    @property
    def is_off(self) -> bool:
        """Whether it differs from the lowest rank's clock at any time."""
        return self.ahead_ns != 0 or self.drift != 0

    def corrected(self, times: Ints) -> Ints:
        """Convert times of this clock to the lowest rank's."""
        ahead = np.round(self.ahead_ns + self.drift * (times - self.at_ns))
        corrected: Ints = times - ahead.astype(np.int64)
        return corrected


class Clocks(Record):
    """The clocks of all ranks of a run."""

    schema_version: Int64 = SCHEMA_VERSION
    method: Literal["collectives", "steps", "host"]
    """Basis of the estimate: ends of collectives, ends of steps, or only that all ranks ran on one machine."""
    compared_count: Int64 = 0
    """Number of synchronizing collectives or steps compared."""
    ranks: tuple[RankClock, ...]
    traces: tuple[tuple[Number, Number], ...] = Field(default=())
    """Rank and cycle of each trace that was used. A run with other traces needs a new estimate."""

    def of_ranks(self, ranks: Container[int]) -> Clocks:
        """Return the clocks of the given ranks."""
        return self.model_copy(update={"ranks": tuple(clock for clock in self.ranks if clock.rank in ranks)})
