"""Spans drawn as slices in lanes, the shape that the page's canvas takes: parallel lists, starts as differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unified_profiler.model.nesting import Ints
from unified_profiler.presentation.texts import shortened


@dataclass(frozen=True, kw_only=True)
class Slices:
    """Slices of some tracks, of which none overlaps another one of its track and depth."""

    track: Ints
    depth: Ints
    start: Ints
    duration: Ints
    own: Ints
    """Self time."""
    name: Ints
    category: Ints
    more: Mapping[str, Ints]
    """What else there is to say of each."""

    def chosen(self, rows: Any) -> Slices:
        """Return some of them."""
        kept = {name: values[rows] for name, values in self.more.items()}
        columns = (self.track, self.depth, self.start, self.duration, self.own, self.name, self.category)
        track, depth, start, duration, own, name, category = (values[rows] for values in columns)
        return Slices(
            track=track, depth=depth, start=start, duration=duration, own=own, name=name, category=category, more=kept
        )

    def to_document(self, names: Sequence[str], tracks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the lists that the page takes, with the names and tracks that are used in them."""
        lanes = self.chosen(np.lexsort((self.start, self.depth, self.track)))
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
