"""Matches events with the naming conventions of their frameworks."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from unified_profiler.analysis.columns import Flags, coded
from unified_profiler.model.schema import EventTable
from unified_profiler.spi import EventConventions


def matches_convention(events: EventTable, conventions: Mapping[str, EventConventions], field: str) -> Flags:
    """Flag the events whose name matches a pattern of their framework's conventions.

    Args:
        events: Events with the columns `name` and `framework`.
        conventions: The conventions of each framework.
        field: The field of `EventConventions` with the pattern.
    """
    flags, framework = np.zeros(len(events), np.bool_), coded(events, "framework")
    for name, convention in conventions.items():
        if (pattern := getattr(convention, field)) is not None and name in framework.values:
            search = re.compile(pattern, re.IGNORECASE).search
            matching = coded(events, "name").where(lambda text, search=search: search(text) is not None)
            flags |= framework.where(name.__eq__) & matching
    return flags
