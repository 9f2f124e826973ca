"""Finds when a trace waited for data: regions of the user and operators of the framework that load data."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from unified_profiler.analysis.columns import Flags, coded
from unified_profiler.analysis.conventions import matches_convention
from unified_profiler.analysis.intervals import IntervalSet
from unified_profiler.analysis.step_facts import KindTimeline
from unified_profiler.model.schema import EventTable, Kind, Layer
from unified_profiler.spi import EventConventions

_DATA_LOADING = (
    r"(?<![a-z])(data|dataset|data_?loader|data_?loading|load_?(data|batch)|(next|get|fetch)_?batch)(?![a-z])"
)
"""Matches words that users put into the names of regions that load data."""


def loads_data(events: EventTable, conventions: Mapping[str, EventConventions]) -> Flags:
    """Flag the regions and operators of the host that load data or wait for it."""
    kind = coded(events, "kind")
    loads = coded(events, "name").where(lambda name: re.search(_DATA_LOADING, name, re.IGNORECASE) is not None)
    loads &= kind.where(Kind.REGION.value.__eq__)
    named = matches_convention(events, conventions, "data_loading")
    loads |= named & kind.where({Kind.REGION.value, Kind.OP.value}.__contains__)
    # An annotation also has a span on the device
    return loads & ~coded(events, "layer").where(Layer.RUNTIME.value.__eq__)


def data_loading(timeline: KindTimeline, conventions: Mapping[str, EventConventions]) -> dict[str, IntervalSet]:
    """Return the names of the regions and operators that load data, and when they ran."""
    rows = np.flatnonzero(loads_data(timeline.events, conventions))
    names = coded(timeline.events, "name")
    codes = names.codes[rows]
    return {names.values[code]: timeline.during(rows[codes == code]) for code in np.unique(codes)}
