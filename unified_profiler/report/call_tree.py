"""Builds the call tree of a rank, in which calls with the same call path are one node, across all steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unified_profiler.analysis.tracks import TrackLayout
from unified_profiler.model.columns import Index
from unified_profiler.model.nesting import Ints
from unified_profiler.report.slices import COLUMNS, Slices
from unified_profiler.report.spans import TraceSpans

MOST_NODES = 10_000
"""Largest number of nodes; the shortest are left out."""
_STEP = "step"
_TRAILING_NUMBER = re.compile(r"[\s_:/#-]*\d+$")


def call_tree(spans: Sequence[TraceSpans], *, most: int = MOST_NODES) -> dict[str, Any]:
    """Return the call tree of one rank as JSON for the page: a track per kind of thread, starts by accumulated time."""
    names, tracks = Index(), Index()
    nodes = _merged(_calls(spans, names, tracks))
    threshold = np.sort(nodes.duration)[-most] if len(nodes.duration) > most else 0
    kept = np.flatnonzero(nodes.duration >= max(int(threshold), 1))
    shown = nodes.take(kept)
    extent = int((shown.start + shown.duration).max(initial=0))
    return {
        "start": 0,
        "duration": extent,
        **shown.to_document(list(names), [{"name": name, "device": device} for name, device in tracks]),
        "left_out": {
            "count": len(nodes.duration) - len(kept),
            "self_ns": int(nodes.own.sum() - shown.own.sum()),
        },
    }


@dataclass(frozen=True)
class _Calls:
    """One entry per call; `parent` is the row of the enclosing call, -1 if none."""

    parent: Ints
    track: Ints
    name: Ints
    duration: Ints
    category: Ints


def _calls(spans: Sequence[TraceSpans], names: Index, tracks: Index) -> _Calls:
    """Concatenate the calls of several traces."""
    offsets = np.cumsum([0, *(len(part.start) for part in spans)])
    parents = [np.where(p.parent < 0, -1, p.parent + offset) for p, offset in zip(spans, offsets, strict=False)]
    return _Calls(
        parent=_concatenate(parents),
        track=_concatenate([_tracks(part.lanes, tracks) for part in spans]),
        name=_concatenate([_names(part, names) for part in spans]),
        duration=_concatenate([part.duration for part in spans]),
        category=_concatenate([part.category for part in spans]),
    )


def _concatenate(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _names(spans: TraceSpans, names: Index) -> Ints:
    """Return name codes; all steps share one name, so that the calls inside them merge."""
    codes = names.codes(spans.name.values)[spans.name.codes]
    if len(spans.steps):
        codes[spans.steps] = names[_STEP]
    return codes


def _tracks(lanes: TrackLayout, tracks: Index) -> Ints:
    """Return track codes: threads whose names differ only by a trailing number share a track."""
    threads = [(lane.source.thread_name, lane.source.device) for lane in lanes.tracks]
    kinds = [(_TRAILING_NUMBER.sub("", name) or name, device) for name, device in threads]
    return tracks.codes(kinds)[lanes.of_row]


def _merged(calls: _Calls) -> Slices:
    """Merge calls depth by depth, and place the nodes with one parent side by side, longest first."""
    parent, node_of_call = calls.parent, np.full(len(calls.parent), -1, np.int64)
    rows = np.flatnonzero(parent < 0)
    parent_node = -1 - calls.track[rows]  # roots of each track get a negative parent of their own
    by_parent = np.argsort(parent, kind="stable")
    sorted_parents = parent[by_parent]
    parts: list[Slices] = []
    starts, depth = np.zeros(0, np.int64), 0
    while len(rows):
        nodes, of_call = _nodes(calls, rows, parent_node, starts, depth)
        node_of_call[rows] = len(starts) + of_call
        parts.append(nodes)
        starts, depth = np.concatenate([starts, nodes.start]), depth + 1
        rows = _children(rows, by_parent, sorted_parents)
        parent_node = node_of_call[parent[rows]]
    return _joined(parts)


def _children(rows: Ints, by_parent: Ints, sorted_parents: Ints) -> Ints:
    """Return the rows whose parents are among the given rows; `by_parent` holds all rows, sorted by parent."""
    begin, end = np.searchsorted(sorted_parents, rows, "left"), np.searchsorted(sorted_parents, rows, "right")
    counts = end - begin
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    children: Ints = by_parent[np.repeat(begin, counts) + offsets]
    return children


def _nodes(calls: _Calls, rows: Ints, parent_node: Ints, starts: Ints, depth: int) -> tuple[Slices, Ints]:
    """Merge calls of one depth; return their nodes and the index of each call's node."""
    key = (parent_node - parent_node.min()) * (int(calls.name.max()) + 1) + calls.name[rows]
    _, first, of_call = np.unique(key, return_index=True, return_inverse=True)
    spent = np.bincount(of_call, weights=calls.duration[rows]).astype(np.int64)
    parent = parent_node[first]
    order = np.lexsort((-spent, parent))
    before = np.cumsum(spent[order]) - spent[order]
    group = np.flatnonzero(np.diff(parent[order], prepend=parent[order][:1] - 1))
    within = before - np.repeat(before[group], np.diff(np.append(group, len(order))))
    start = np.empty_like(spent)
    start[order] = within + (starts[np.maximum(parent[order], 0)] if len(starts) else 0) * (parent[order] >= 0)
    nodes = Slices(
        track=calls.track[rows][first],
        depth=np.full(len(spent), depth, np.int64),
        start=start,
        duration=spent,
        own=spent.copy(),
        name=calls.name[rows][first],
        category=calls.category[rows][first],
        more={"count": np.bincount(of_call).astype(np.int64), "parent": parent},
    )
    return nodes, of_call


def _joined(parts: Sequence[Slices]) -> Slices:
    joined = {name: _concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    parent, count = (_concatenate([part.more[name] for part in parts]) for name in ("parent", "count"))
    inner = np.flatnonzero(parent >= 0)
    spent = np.bincount(parent[inner], weights=joined["duration"][inner], minlength=len(parent)).astype(np.int64)
    joined["own"] = joined["duration"] - spent
    return Slices(**joined, more={"count": count})
