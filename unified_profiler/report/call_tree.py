"""The call tree of a rank: calls that came by the same way are one node, whatever step they were in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unified_profiler.analysis.tracks import TrackLayout
from unified_profiler.model.columns import Index
from unified_profiler.model.nesting import Ints
from unified_profiler.report.slices import Slices
from unified_profiler.report.spans import Spans

MOST_NODES = 10_000
"""Nodes of a tree that are drawn; the smallest are left out."""
_STEP = "step"
_NUMBERS = re.compile(r"[\s_:/#-]*\d+$")


def call_tree(spans: Sequence[Spans], *, most: int = MOST_NODES) -> dict[str, Any]:
    """Return the tree of the spans of one rank for the page: tracks are sorts of threads, starts accumulated time."""
    names, tracks = Index(), Index()
    calls = [_calls(part, names, tracks) for part in spans]
    nodes = _merged(_Calls.joined(calls))
    threshold = np.sort(nodes.duration)[-most] if len(nodes.duration) > most else 0
    kept = np.flatnonzero(nodes.duration >= max(int(threshold), 1))
    drawn = nodes.chosen(kept)
    extent = int((drawn.start + drawn.duration).max(initial=0))
    return {
        "start": 0,
        "duration": extent,
        **drawn.to_document(list(names), [{"name": name, "device": device} for name, device in tracks]),
        "left_out": {
            "count": len(nodes.duration) - len(kept),
            "self_ns": int(nodes.own.sum() - drawn.own.sum()),
        },
    }


@dataclass(frozen=True)
class _Calls:
    """One entry per call; a parent is the row of the call around it, -1 without one."""

    parent: Ints
    track: Ints
    name: Ints
    duration: Ints
    category: Ints

    @classmethod
    def joined(cls, parts: Sequence[_Calls]) -> _Calls:
        """Put the calls of several traces one after the other."""
        offsets = np.cumsum([0, *(len(part.parent) for part in parts)])[: len(parts)]
        shifted = zip(parts, offsets, strict=True)
        parents = [np.where(part.parent < 0, -1, part.parent + offset) for part, offset in shifted]
        rest = [
            np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in parts)])
            for name in ("track", "name", "duration", "category")
        ]
        return cls(np.concatenate([np.zeros(0, np.int64), *parents]), *rest)


def _calls(spans: Spans, names: Index, tracks: Index) -> _Calls:
    return _Calls(
        parent=spans.parent,
        track=_tracks(spans.lanes, tracks),
        name=_names(spans, names),
        duration=spans.duration,
        category=spans.category,
    )


def _names(spans: Spans, names: Index) -> Ints:
    """Number the names; all steps have the same, so that the calls within them come together."""
    codes = names.codes(spans.name.values)[spans.name.codes]
    if len(spans.steps):
        codes[spans.steps] = names[_STEP]
    return codes


def _tracks(lanes: TrackLayout, tracks: Index) -> Ints:
    """Number the sorts of threads: those whose names differ by a number alone are one sort."""
    places = [lane.source for lane in lanes.tracks]
    found = [(_NUMBERS.sub("", place.thread_name) or place.thread_name, place.device) for place in places]
    return tracks.codes(found)[lanes.of_row]


def _merged(calls: _Calls) -> Slices:
    """Merge calls level by level, and lay the nodes of a level out side by side, the largest first."""
    parent, number = calls.parent, np.full(len(calls.parent), -1, np.int64)
    level = np.flatnonzero(parent < 0)
    above = -1 - calls.track[level]  # stands for the parent of roots: one for each track
    children = np.argsort(parent, kind="stable")
    firsts = parent[children]
    parts: list[Slices] = []
    starts, count, depth = np.zeros(0, np.int64), 0, 0
    while len(level):
        nodes, of_call = _nodes(calls, level, above, starts, depth)
        number[level] = count + of_call
        parts.append(nodes)
        starts, count, depth = np.concatenate([starts, nodes.start]), count + len(nodes.start), depth + 1
        level = _children(level, children, firsts)
        above = number[parent[level]]
    return _joined(parts)


def _children(level: Ints, children: Ints, firsts: Ints) -> Ints:
    """Return the calls directly within those of a level."""
    begin, end = np.searchsorted(firsts, level, "left"), np.searchsorted(firsts, level, "right")
    counts = end - begin
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    following: Ints = children[np.repeat(begin, counts) + offsets]
    return following


def _nodes(calls: _Calls, level: Ints, above: Ints, starts: Ints, depth: int) -> tuple[Slices, Ints]:
    key = (above - above.min()) * (int(calls.name.max()) + 1) + calls.name[level]
    _, first, of_call = np.unique(key, return_index=True, return_inverse=True)
    spent = np.bincount(of_call, weights=calls.duration[level]).astype(np.int64)
    parent = above[first]
    order = np.lexsort((-spent, parent))
    before = np.cumsum(spent[order]) - spent[order]
    group = np.flatnonzero(np.diff(parent[order], prepend=parent[order][:1] - 1))
    within = before - np.repeat(before[group], np.diff(np.append(group, len(order))))
    start = np.empty_like(spent)
    start[order] = within + (starts[np.maximum(parent[order], 0)] if len(starts) else 0) * (parent[order] >= 0)
    nodes = Slices(
        track=calls.track[level][first],
        depth=np.full(len(spent), depth, np.int64),
        start=start,
        duration=spent,
        own=spent.copy(),
        name=calls.name[level][first],
        category=calls.category[level][first],
        more={"count": np.bincount(of_call).astype(np.int64), "parent": parent},
    )
    return nodes, of_call


def _joined(parts: Sequence[Slices]) -> Slices:
    columns = ("track", "depth", "start", "duration", "own", "name", "category")
    nothing = np.zeros(0, np.int64)
    joined = {name: np.concatenate([nothing, *(getattr(part, name) for part in parts)]) for name in columns}
    more = {name: np.concatenate([nothing, *(part.more[name] for part in parts)]) for name in ("count", "parent")}
    parent = more.pop("parent")
    inner = np.flatnonzero(parent >= 0)
    spent = np.bincount(parent[inner], weights=joined["duration"][inner], minlength=len(parent)).astype(np.int64)
    joined["own"] = joined["duration"] - spent
    return Slices(**joined, more=more)
