from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.spi.xplane.messages import MESSAGES
from unified_profiler.errors import TraceFormatError
from unified_profiler.spi import NativeCapture
from unified_profiler.spi.xplane.events import XPlaneEvents, read_events
from unified_profiler.spi.xplane.hlo import Programs
from unified_profiler.spi.xplane.lanes import LaneAssigner
from unified_profiler.spi.xplane.planes import decode_text, open_space
from unified_profiler.spi.xplane.stats import FLOW_STATS

GOLDEN = Path(__file__).parents[3] / "golden" / "xplane"


def read(path: Path, ignored: frozenset[str] = frozenset()) -> XPlaneEvents:
    lanes = LaneAssigner(NativeCapture(backend="tensorflow", files=(path,)), file_number=0)
    return read_events(open_space(path), lanes, lambda _: ignored)


def message() -> Any:
    return MESSAGES["XSpace"].FromString((GOLDEN / "eager.xplane.pb").read_bytes())


def written(tmp_path: Path, space: Any) -> Path:
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space.SerializeToString())
    return path


def names_of(plane: Any) -> dict[int, str]:
    return {entry.key: decode_text(entry.value.name) for entry in plane.event_metadata}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.xplane.pb")), ids=lambda path: path.stem)
def test_every_event_has_the_name_and_line_of_the_file(path: Path) -> None:
    events = read(path)
    names = [events.descriptions[number].name for number in events.description]
    threads = [events.lanes[number].thread for number in events.lane]
    expected = [
        (names_of(plane)[event.metadata_id], decode_text(line.display_name or line.name))
        for plane in MESSAGES["XSpace"].FromString(path.read_bytes()).planes
        for line in plane.lines
        for event in line.events
    ]
    assert list(zip(names, threads, strict=True)) == expected


def test_ignored_stats_are_in_no_description() -> None:
    path = GOLDEN / "xla.xplane.pb"
    assert any(FLOW_STATS & description.stats.keys() for description in read(path).descriptions)
    assert not any(FLOW_STATS & description.stats.keys() for description in read(path, FLOW_STATS).descriptions)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.xplane.pb")), ids=lambda path: path.stem)
def test_events_have_the_times_of_the_file(path: Path) -> None:
    events, space = read(path), open_space(path)
    expected = [
        (line.timestamp_ns + event.offset_ps // 1000, line.timestamp_ns + (event.offset_ps + event.duration_ps) // 1000)
        for plane in MESSAGES["XSpace"].FromString(path.read_bytes()).planes
        for line in plane.lines
        for event in line.events
    ]
    start, end = events.start_ns - space.start_ns, events.end_ns - space.start_ns
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == expected


def test_stats_belong_to_their_events_whatever_their_number(tmp_path: Path) -> None:
    space = message()
    plane, line = space.planes[0], space.planes[0].lines[0]
    plane.stat_metadata.add(key=900, value={"name": b"first"})
    plane.stat_metadata.add(key=901, value={"name": b"second"})
    del line.events[200:]
    for number, event in enumerate(line.events):
        del event.stats[:]
        for each in range(number % 3):
            event.stats.add(metadata_id=900 + each, value=~number)
    del plane.lines[1:]
    events = read(written(tmp_path, space))
    values = [events.descriptions[number].stats for number in events.description[: len(line.events)]]
    expected = [[("first", ~n), ("second", ~n)][: n % 3] for n in range(len(line.events))]
    assert [[item for item in stats.items() if item[0] in ("first", "second")] for stats in values] == expected


def test_an_event_without_its_name_is_damage(tmp_path: Path) -> None:
    broken = message()
    broken.planes[0].lines[0].events[3].metadata_id = 99_999
    with pytest.raises(TraceFormatError, match=r"damaged: .* name 99999"):
        read(written(tmp_path, broken))


@pytest.mark.parametrize("value", [(1 << 63) - 1, -(1 << 63), 1 << 62])
@pytest.mark.parametrize("name", ["offset_ps", "duration_ps"])
def test_impossible_times_are_damage_in_a_plane(name: str, value: int, tmp_path: Path) -> None:
    broken = message()
    setattr(broken.planes[0].lines[0].events[3], name, value)
    with pytest.raises(TraceFormatError, match=r"host\.xplane\.pb, plane '/host:CPU' cannot be read"):
        read(written(tmp_path, broken))


@pytest.mark.parametrize("value", [(1 << 63) - 1, -(1 << 63)])
def test_lines_with_an_impossible_start_are_damage(value: int, tmp_path: Path) -> None:
    broken = message()
    broken.planes[0].lines[0].timestamp_ns = value
    with pytest.raises(TraceFormatError, match="plane '/host:CPU'"):
        read(written(tmp_path, broken))


def test_instructions_of_a_program_are_those_of_its_events() -> None:
    path = GOLDEN / "xla.xplane.pb"
    programs = Programs(open_space(path).planes)
    stats = [description.stats for description in read(path).descriptions if "hlo_op" in description.stats]
    instructions = [programs.instruction(s["hlo_module"], s["program_id"], s["hlo_op"]) for s in stats]
    assert ("dot", "MatMul", "dense/matmul") in instructions
    assert None not in instructions
    assert programs.instruction("another", 1, "dot") is None
