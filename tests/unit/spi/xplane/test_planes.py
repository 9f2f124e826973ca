from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.spi.xplane.messages import MESSAGES
from unified_profiler.errors import TraceFormatError
from unified_profiler.spi.wire import Buffer, Ranges
from unified_profiler.spi.xplane.planes import (
    Line,
    LineEvents,
    Space,
    event_columns,
    looks_like_xplane,
    open_space,
    read_event_names,
)

GOLDEN = sorted((Path(__file__).parents[3] / "golden" / "xplane").glob("*.xplane.pb"))
EAGER = GOLDEN[0]


def opened(tmp_path: Path, data: bytes) -> Space:
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(data)
    return open_space(path)


def message() -> Any:
    return MESSAGES["XSpace"].FromString(EAGER.read_bytes())


def test_an_empty_file_is_reported_as_empty(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="is empty"):
        opened(tmp_path, b"")


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_reported_as_truncated(share: float, tmp_path: Path) -> None:
    data = EAGER.read_bytes()
    with pytest.raises(TraceFormatError, match="truncated"):
        opened(tmp_path, data[: int(len(data) * share)])


def test_a_file_cut_between_planes_is_reported_as_truncated(tmp_path: Path) -> None:
    cut = message()
    del cut.planes[-1]
    with pytest.raises(TraceFormatError, match=r"start time of its recording.*truncated"):
        opened(tmp_path, cut.SerializeToString())


@pytest.mark.parametrize("data", [b'{"hello": "world"}', b"PAR1 and so on", b"\x00" * 64, b"hello\n", b"\xff" * 100])
def test_a_foreign_file_is_not_an_xplane_file(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="not an XPlane file"):
        opened(tmp_path, data)


def test_a_file_without_planes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="no planes"):
        opened(tmp_path, MESSAGES["XSpace"](hostnames=[b"somewhere"]).SerializeToString())


def test_a_missing_file_is_a_format_error(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="cannot be read"):
        open_space(tmp_path / "none.xplane.pb")


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_first_bytes_identify_a_file_and_its_event_names_are_those_of_its_planes(path: Path) -> None:
    assert looks_like_xplane(path)
    assert read_event_names(path) == {name for plane in open_space(path).planes for name in plane.event_names.values()}


def test_a_damaged_file_has_no_event_names(tmp_path: Path) -> None:
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(EAGER.read_bytes()[:-99])
    assert read_event_names(path) == set()


def line(*spans: tuple[int, int]) -> Line:
    """Build a line from offsets and durations."""
    offset_ps, duration_ps = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    none = np.empty(0, np.int64)
    events = LineEvents(Buffer(b""), np.ones_like(offset_ps), offset_ps, duration_ps, Ranges(none, none, none))
    return Line(1, "line", 5, events)


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**6), st.integers(0, 10**6)), max_size=20))
def test_events_that_nest_in_picoseconds_nest_in_nanoseconds(spans: list[tuple[int, int, int]]) -> None:
    for start_ps, duration_ps, margin in spans:
        outer = max(0, start_ps - margin), duration_ps + 2 * margin
        _, start, end = event_columns(line((start_ps, duration_ps), outer))
        assert start[1] <= start[0] <= end[0] <= end[1]
