"""Measures for groups of device work how long each combination of work classes ran at once."""

from __future__ import annotations

import numpy as np

from unified_profiler.analysis.devices.work import CLASSES
from unified_profiler.model.nesting import Ints

MASKS = 1 << len(CLASSES)
"""Number of combinations of classes; combination 0 is no work at all."""


def class_times(start: Ints, end: Ints, work_class: Ints, group: Ints, *, groups: int) -> Ints:
    """Return for each group and each class mask how long exactly these classes ran at once.

    Column 0 is the time between the first start and the last end in which the group did nothing.

    Args:
        start: When each piece of work began.
        end: When it ended.
        work_class: Its class, an index into `CLASSES`.
        group: Its group, from 0 to `groups` - 1.
        groups: The number of groups.
    """
    times = np.zeros((groups, MASKS), np.int64)
    if not len(start):
        return times
    time, owner = np.concatenate([start, end]), np.concatenate([group, group])
    change = np.concatenate([np.ones(len(start), np.int64), np.full(len(end), -1, np.int64)])
    of_class = np.concatenate([work_class, work_class])
    order = np.lexsort((time, owner))
    time, owner, change, of_class = time[order], owner[order], change[order], of_class[order]
    mask = np.zeros(len(time), np.int64)
    for bit in range(len(CLASSES)):
        mask |= (np.cumsum(np.where(of_class == bit, change, 0)) > 0).astype(np.int64) << bit
    same_group = owner[1:] == owner[:-1]
    np.add.at(times, (owner[:-1], mask[:-1]), np.where(same_group, time[1:] - time[:-1], 0))
    return times


def of_classes(times: Ints, *, with_any: tuple[str, ...], without: tuple[str, ...] = ()) -> Ints:
    """Return for each group how long any of some classes ran while none of others did."""
    wanted, unwanted = (sum(1 << CLASSES.index(name) for name in names) for names in (with_any, without))
    masks = [mask for mask in range(MASKS) if mask & wanted and not mask & unwanted]
    total: Ints = times[:, masks].sum(axis=1)
    return total


def together(times: Ints, *names: str) -> Ints:
    """Return for each group how long all of some classes ran at once."""
    wanted = sum(1 << CLASSES.index(name) for name in names)
    total: Ints = times[:, [mask for mask in range(MASKS) if mask & wanted == wanted]].sum(axis=1)
    return total
