"""EventConventions: the names and attribute keys that a framework's profiler uses for data loading and collectives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EventConventions:
    """Describes a framework's events to the analyses, which look it up by the `framework` column.

    Patterns are regular expressions that are searched for in an event's name, ignoring case.
    """

    data_loading: str | None = None
    """Matches the names of operators and regions that load data."""
    background_loading: str | None = None
    """Matches those that take data from workers, which load the next batch in the meantime."""
    synchronizing_collectives: str | None = None
    """Matches the names of collectives that no rank can leave before all have entered, such as an all-reduce.

    If not given, they are recognized by their canonical operators: `x:AllReduce`, `x:AllGather`, `x:ReduceScatter` and
    `x:AllToAll`.
    """
    collective_name_key: str | None = None
    """The attribute that has a collective's name, where the name of its event may differ (that of a kernel)."""
    collective_ranks_key: str | None = None
    """The attribute that has the ranks of a collective's process group."""
