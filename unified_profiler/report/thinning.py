"""Thinning out what is too long for a page, so that what stands out stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unified_profiler.model.nesting import Ints


def largest_of_stretches(values: npt.NDArray[Any], most: int) -> Ints:
    """Return the places to keep: all if they are few, else of each of `most` stretches that of the largest value."""
    places = np.arange(len(values))
    if len(places) <= most:
        return places
    stretch = places * most // len(places)
    order = np.lexsort((-values, stretch))
    kept: Ints = order[np.flatnonzero(np.diff(stretch[order], prepend=-1))]
    return kept
