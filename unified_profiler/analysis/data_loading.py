"""Finds when a trace waited for data: regions of the user and operators of the framework that load data."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.columns import coded
from unified_profiler.analysis.conventions import matches_convention
from unified_profiler.analysis.intervals import IntervalSet
from unified_profiler.analysis.step_facts import KindTimeline
from unified_profiler.model.schema import Kind
from unified_profiler.spi import EventConventions

DATA_LOADING = (
    r"(?<![a-z])(data|dataset|data_?loader|data_?loading|load_?(data|batch)|(next|get|fetch)_?batch)(?![a-z])"
)
"""Matches words that users put into the names of regions that load data."""


def data_loading(timeline: KindTimeline, conventions: Mapping[str, EventConventions]) -> dict[str, IntervalSet]:
    """Return the names of the regions and operators that load data, and when they ran."""
    rows = timeline.rows(Kind.REGION, Kind.OP)
    events = timeline.events.select(["name", "kind", "framework"]).take(pa.array(rows))
    loads = coded(events, "kind").where(Kind.REGION.value.__eq__)
    matches = re.compile(DATA_LOADING, re.IGNORECASE).search
    loads &= coded(events, "name").where(lambda name: matches(name) is not None)
    loads |= matches_convention(events, conventions, "data_loading")
    rows, names = rows[loads], coded(events.filter(pa.array(loads)), "name")
    return {names.values[code]: timeline.during(rows[names.codes == code]) for code in np.unique(names.codes)}
