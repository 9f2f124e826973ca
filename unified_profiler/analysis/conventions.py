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
        conventions: The conventions of each framework; the default ones apply to others.
        field: The field of `EventConventions` with the pattern.
    """
    flags, framework, names = np.zeros(len(events), np.bool_), coded(events, "framework"), coded(events, "name")
    for name in framework.values:
        if (pattern := getattr(conventions.get(name, EventConventions()), field)) is not None:
            matching = set(filter(re.compile(pattern, re.IGNORECASE).search, names.values))
            flags |= framework.where(name.__eq__) & names.where(matching.__contains__)
    return flags
