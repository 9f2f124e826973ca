"""Leaves the profiler's own Python frames out of pictures: `run` above the script, and its hooks and wrappers below.

Native profilers record them with `with_stack`. They stay in the table of events.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.ancestry import nearest, parent_rows, within
from unified_profiler.analysis.columns import Flags, coded, ints
from unified_profiler.model.nesting import Ints, is_kind, with_column
from unified_profiler.model.schema import EventTable, Kind

_FRAME = re.compile(r"unified_profiler(_\w+)?/[\w/]+\.py\(\d+\): ")
_LAUNCHER = re.compile(r"unified_profiler/launch/program\.py\(\d+\): ")


def without_own_frames(events: EventTable) -> EventTable:
    """Return the events less these frames, whose self time goes to the events around them."""
    names = coded(events, "name")
    own = names.where(lambda name: _FRAME.match(name) is not None)
    if not own.any():
        return events
    parent = parent_rows(events)
    launcher = names.where(lambda name: _LAUNCHER.match(name) is not None)
    above_script = within(launcher.astype(np.int64), parent) > 0
    left_out = (own | above_script) & is_kind(events, Kind.RUNTIME)
    return _nested(events, parent, kept=~left_out)


def _nested(events: EventTable, parent: Ints, *, kept: Flags) -> EventTable:
    """Return the kept events, with parents, depths and self times as if there had been no others."""
    rows, gone = np.flatnonzero(kept), np.flatnonzero(~kept)
    around, heir = nearest(parent[rows], parent=parent, wanted=kept), nearest(parent[gone], parent=parent, wanted=kept)
    own = ints(events, "self_ns").copy()
    np.add.at(own, heir[heir >= 0], own[gone[heir >= 0]])
    ids = ints(events, "id")
    shown = events.take(pa.array(rows))
    shown = with_column(shown, "self_ns", own[rows])
    shown = with_column(shown, "depth", ints(events, "depth")[rows] - _count_above(parent, ~kept)[rows])
    return with_column(shown, "parent_id", pa.array(ids[around], mask=around < 0))


def _count_above(parent: Ints, wanted: Flags) -> Ints:
    """Return the number of wanted events above each event."""
    count = np.zeros(len(parent), np.int64)
    ancestor = parent.copy()
    while len(rows := np.flatnonzero(ancestor >= 0)):
        count[rows] += wanted[ancestor[rows]]
        ancestor[rows] = parent[ancestor[rows]]
    return count
