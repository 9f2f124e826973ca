"""Slices to draw on the canvas of the page: parallel arrays, written as JSON lists with delta-encoded starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unified_profiler.model.nesting import Ints
from unified_profiler.presentation.texts import shortened

COLUMNS = ("track", "depth", "start", "duration", "own", "name", "category")


@dataclass(frozen=True, kw_only=True)
class Slices:
    """Slices of several tracks; slices of the same track and depth do not overlap."""

    track: Ints
    depth: Ints
    start: Ints
    duration: Ints
    own: Ints
    """Self time."""
    name: Ints
    category: Ints
    more: Mapping[str, Ints]
    """Further columns, by name."""

    def take(self, rows: Ints) -> Slices:
        """Return the slices of the given rows."""
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        return Slices(**columns, more={name: values[rows] for name, values in self.more.items()})

    def to_document(self, names: Sequence[str], tracks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the JSON lists for the page, with only the names and tracks that occur in them."""
        lanes = self.take(np.lexsort((self.start, self.depth, self.track)))
        used_tracks, track = np.unique(lanes.track, return_inverse=True)
        used_names, name = np.unique(lanes.name, return_inverse=True)
        depth_counts = [int(lanes.depth[track == index].max()) + 1 for index in range(len(used_tracks))]
        return {
            "names": [shortened(names[code]) for code in used_names.tolist()],
            "tracks": [
                {**tracks[code], "depth_count": count}
                for code, count in zip(used_tracks.tolist(), depth_counts, strict=True)
            ],
            "slices": {
                "track": track.tolist(),
                "depth": lanes.depth.tolist(),
                "start": np.diff(lanes.start, prepend=0).tolist(),
                "duration": lanes.duration.tolist(),
                "self": lanes.own.tolist(),
                "name": name.tolist(),
                "category": lanes.category.tolist(),
                **{key: values.tolist() for key, values in lanes.more.items()},
            },
        }
