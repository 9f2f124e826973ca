from __future__ import annotations

import numpy as np
import pytest

from unified_profiler.analysis.tracks import lay_out_tracks
from unified_profiler.model.nesting import FIRST_LANE
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


@pytest.mark.parametrize(
    ("thread", "tid", "name"),
    [
        ("MainThread", 7, "main thread"),
        ("thread 7 (unified-profile)", 7, "main thread"),
        ("thread 8 (pt_autograd_0)", 8, "pt_autograd_0"),
        ("tf_Compute/-4167822334584030351", FIRST_LANE, "tf_Compute"),
        ("-549452224", 9, "thread 9"),
        ("-549452224", -549452224, "worker"),
        (None, 140_000_000_000, "worker"),
        ("MainThread", FIRST_LANE, "main thread"),
        ("3", FIRST_LANE + 2, "lane 2"),
        (None, 9, "thread 9"),
        ("worker 3", 9, "worker 3"),
    ],
)
def test_threads_have_names_that_people_understand(thread: str | None, tid: int, name: str) -> None:
    events = event_table(
        {"name": "op", "layer": "framework", "kind": "op", "start_ns": [1], "duration_ns": 1, "pid": 7}
        | {"tid": [tid], "thread": [thread]},
        rows=1,
    )
    assert [track.name for track in lay_out_tracks(events).tracks] == [name]


def test_lanes_of_one_name_are_numbered() -> None:
    threads = [f"tf_Compute/{number}" for number in (123456, 234567, -345678)]
    events = event_table(
        {"name": "op", "layer": "framework", "kind": "op", "start_ns": [1, 2, 3], "duration_ns": 1, "pid": 7}
        | {"tid": [FIRST_LANE, FIRST_LANE + 1, FIRST_LANE + 2], "thread": threads},
        rows=3,
    )
    names = [track.name for track in lay_out_tracks(events).tracks]
    assert names == ["tf_Compute", "tf_Compute 2", "tf_Compute 3"]


def test_the_lane_of_the_main_thread_and_workers_are_numbered() -> None:
    events = event_table(
        {"name": "op", "layer": "framework", "kind": "op", "start_ns": [1, 2, 3, 4], "duration_ns": 1, "pid": 7}
        | {"tid": [7, FIRST_LANE, -5, -6], "thread": ["MainThread", "MainThread", None, None]},
        rows=4,
    )
    names = {track.name for track in lay_out_tracks(events).tracks}
    assert names == {"main thread", "main thread 2", "worker", "worker 2"}
