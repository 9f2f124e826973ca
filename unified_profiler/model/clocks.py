"""How far the clocks of a run's ranks differ, as a record in the run directory: `clocks.json`."""

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
    """By how much the clock of a rank is ahead of that of the lowest rank, and how sure that is."""

    rank: Number
    ahead_ns: Annotated[float, Field(ge=-(1 << 61), le=1 << 61)] = 0.0
    """At the moment `at_ns` of this clock."""
    drift: Annotated[float, Field(ge=-0.01, le=0.01)] = 0.0
    """By how much that grows per unit of time."""
    at_ns: Int64 = 0
    uncertainty_ns: float = 0.0
    """Half the width of the interval in which it lies with 95 % probability, where it is least sure."""

    @property
    def is_off(self) -> bool:
        """Whether it is ahead or behind at any time."""
        return self.ahead_ns != 0 or self.drift != 0

    def corrected(self, moments: Ints) -> Ints:
        """Return moments of this clock as those of the lowest rank's."""
        ahead = np.round(self.ahead_ns + self.drift * (moments - self.at_ns))
        corrected: Ints = moments - ahead.astype(np.int64)
        return corrected


class Clocks(Record):
    """The clocks of all ranks of a run."""

    schema_version: Int64 = SCHEMA_VERSION
    method: Literal["collectives", "steps", "host"]
    """What they were estimated from: ends of collectives, ends of steps, or nothing if all ranks ran on one machine."""
    compared_count: Int64 = 0
    """How many synchronizing collectives, or steps, were compared."""
    ranks: tuple[RankClock, ...]
    traces: tuple[tuple[Number, Number], ...] = Field(default=())
    """Rank and cycle of each trace that was there: with further ones they are to be estimated again."""

    def of_ranks(self, ranks: Container[int]) -> Clocks:
        """Return the clocks of some ranks."""
        return self.model_copy(update={"ranks": tuple(clock for clock in self.ranks if clock.rank in ranks)})
