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
    collective_group_key: str | None = None
    """The attribute that has the name of a collective's process group."""
    collective_group_size_key: str | None = None
    """The attribute that has the number of ranks in a collective's process group."""
    collective_elements_keys: tuple[str, ...] = ()
    """The attributes that have the number of elements a rank puts into a collective, and the number it gets."""
    collective_type_key: str | None = None
    """The attribute that has the type of a collective's elements."""
    grid_keys: tuple[str, ...] = ()
    """The attributes that have a kernel's grid, in blocks, and the size of a block, in threads."""
    synchronizing_calls: str = "synchroni[sz]e"
    """Matches the calls of a device's runtime in which the host waits for the device."""
    queues_work: bool = False
    """Whether calls of the framework's API return before their work has run, even without an accelerator."""
    pinned_copies: str | None = None
    """Matches the names of copies from or to page-locked memory of the host."""
    pageable_copies: str | None = None
    """Matches the names of copies from or to pageable memory of the host, which are slower and block the host."""
