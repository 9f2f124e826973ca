"""Reduces long series for a page, keeping their maxima."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unified_profiler.model.nesting import Ints


def thin_keeping_maxima(values: npt.NDArray[Any], most: int) -> Ints:
    """Return the indices to keep: all if at most `most`, else that of the maximum in each of `most` equal parts."""
    indices = np.arange(len(values))
    if len(indices) <= most:
        return indices
    part = indices * most // len(indices)
    order = np.lexsort((-values, part))
    kept: Ints = order[np.flatnonzero(np.diff(part[order], prepend=-1))]
    return kept
