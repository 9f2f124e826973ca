from __future__ import annotations

import numpy as np

from unified_profiler.analysis.tracks import lay_out_tracks
from unified_profiler.model.schema import event_table


def test_files_share_no_tracks_and_have_the_same_numbers() -> None:
    events = event_table(
        {"name": "op", "layer": "framework", "kind": "op", "start_ns": [1, 2, 3, 4], "duration_ns": 1, "pid": 7}
        | {"tid": [7, 8, 8, 7]},
        rows=4,
    )
    layout = lay_out_tracks(events, file=np.array([0, 0, 1, 1]))
    assert [(track.pid, track.tid) for track in layout.tracks] == [(7, 7), (7, 8), (7, 7), (7, 8)]
    assert layout.file.tolist() == [0, 0, 1, 1]
    assert layout.of_row.tolist() == [0, 1, 3, 2]
    assert layout.first_row.tolist() == [0, 1, 3, 2]
