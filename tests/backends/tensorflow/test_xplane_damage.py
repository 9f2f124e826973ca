"""Damaged, foreign and unusual files, and directories of them."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.tsl.profiler.protobuf import xplane_pb2

import unified_profiler as up
from unified_profiler.errors import TraceFormatError
from unified_profiler.model.schema import EVENT_SCHEMA
from unified_profiler.spi import NativeCapture
from unified_profiler_tensorflow.read.normalizer import TensorFlowNormalizer

GOLDEN = Path(__file__).parents[2] / "golden" / "xplane"
EAGER, LOOP = GOLDEN / "eager.xplane.pb", GOLDEN / "loop.xplane.pb"

Normalize = Callable[[bytes], pa.Table]


def read(*files: Path) -> pa.Table:
    return TensorFlowNormalizer().normalize(NativeCapture(backend="tensorflow", files=files))


@pytest.fixture
def normalize(tmp_path: Path) -> Normalize:
    def run(data: bytes) -> pa.Table:
        path = tmp_path / "host.xplane.pb"
        path.write_bytes(data)
        return read(path)

    return run


def space() -> xplane_pb2.XSpace:
    return xplane_pb2.XSpace.FromString(EAGER.read_bytes())


@pytest.mark.parametrize("data", [b"", EAGER.read_bytes()[:-99], b"hello", b"\xff" * 100])
def test_a_file_that_cannot_be_opened_is_a_format_error(data: bytes, normalize: Normalize) -> None:
    with pytest.raises(TraceFormatError, match=r"host\.xplane\.pb"):
        normalize(data)


def test_profiles_deep_in_a_tree_are_not_recognized(tmp_path: Path) -> None:
    (tmp_path / "a/b/c/d/e").mkdir(parents=True)
    shutil.copy(LOOP, tmp_path / "a/b/c/d/e/host.xplane.pb")
    assert not TensorFlowNormalizer().recognizes(tmp_path)
    with pytest.raises(TraceFormatError, match="holds no run"):
        up.read(tmp_path)


def test_a_recording_of_nothing_gives_an_empty_table(normalize: Normalize) -> None:
    idle = space()
    del idle.planes[0]
    assert len(normalize(idle.SerializeToString())) == 0


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("changed") / "host.xplane.pb"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0), st.binary(min_size=1, max_size=1)), min_size=1, max_size=5))
def test_changed_bytes_give_a_table_or_a_format_error(scratch: Path, changes: list[tuple[int, bytes]]) -> None:
    changed = bytearray((GOLDEN / "xla.xplane.pb").read_bytes())
    for position, byte in changes:
        changed[position % len(changed)] = byte[0]
    scratch.write_bytes(changed)
    with suppress(TraceFormatError):
        assert read(scratch).schema.equals(EVENT_SCHEMA)


def test_the_garbage_collector_is_on_after_a_failure(normalize: Normalize) -> None:
    with pytest.raises(TraceFormatError):
        normalize(b"\xff" * 100)
    assert gc.isenabled()


def test_names_that_are_no_utf8_are_repaired(normalize: Normalize) -> None:
    table = normalize(EAGER.read_bytes().replace(b"ReluGrad", b"Relu\xff\xfead"))
    assert "EagerLocalExecute: Relu\ufffd\ufffdad" in table.column("name").to_pylist()


def test_totals_without_a_timestamp_are_left_out(normalize: Normalize) -> None:
    summed = space()
    summed.planes[0].lines[0].events[0].num_occurrences = 7
    assert len(normalize(summed.SerializeToString())) == len(read(EAGER)) - 1


def test_steps_within_steps_are_regions(normalize: Normalize) -> None:
    nested = space()
    plane = nested.planes[0]
    (name,) = (entry.id for entry in plane.event_metadata.values() if entry.name == "train")
    for event in [event for event in plane.lines[0].events if event.metadata_id == name]:
        inner = plane.lines[0].events.add()
        inner.CopyFrom(event)
        inner.offset_ps += 1000
        inner.duration_ps -= 2000
    events = [event for event in normalize(nested.SerializeToString()).to_pylist() if event["name"] == "train"]
    assert [(event["kind"], event["step"]) for event in events] == [
        ("step", 0),
        ("step", 1),
        ("region", None),
        ("region", None),
    ]


def test_a_users_own_id_is_kept(normalize: Normalize) -> None:
    annotated = space()
    plane = annotated.planes[0]
    plane.stat_metadata[9000].name = "id"
    (name,) = (entry.id for entry in plane.event_metadata.values() if entry.name == "train")
    next(e for e in plane.lines[0].events if e.metadata_id == name).stats.add(metadata_id=9000, int64_value=0)
    events = normalize(annotated.SerializeToString()).to_pylist()
    assert [event["attributes"] for event in events if event["name"] == "train"] == ['{"id":0}', None]


# --- recognizing, and directories -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "contents"), [("a.json", b'{"hello": "world"}'), ("b.pb", b""), ("c.pb", b"\x0a\x05hello"), ("d", b"\x0a")]
)
def test_foreign_files_are_not_recognized(name: str, contents: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(contents)
    assert not TensorFlowNormalizer().recognizes(path)


def test_an_xplane_file_is_recognized_under_any_name(tmp_path: Path) -> None:
    for golden in GOLDEN.glob("*.xplane.pb"):
        path = tmp_path / golden.stem.replace(".", "_")
        shutil.copy(golden, path)
        assert TensorFlowNormalizer().recognizes(path)
        assert len(read(path)) == len(read(golden))


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """A directory as TensorBoard has it: an older run of one host and a newer one of two."""
    for run, host, golden in [
        ("2025_01_01_10_00_00", "one", LOOP),
        ("2025_01_02_10_00_00", "one", EAGER),
        ("2025_01_02_10_00_00", "two", LOOP),
    ]:
        folder = tmp_path / "train" / "plugins" / "profile" / run
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(golden, folder / f"{host}.xplane.pb")
    return tmp_path


@pytest.mark.parametrize("inside", [".", "train", "train/plugins/profile", "train/plugins/profile/2025_01_02_10_00_00"])
def test_a_directory_is_read_from_any_level_above_its_files(inside: str, logdir: Path) -> None:
    path = logdir / inside
    assert TensorFlowNormalizer().recognizes(path)
    assert len(read(path)) == len(read(EAGER)) + len(read(LOOP))


def test_the_other_runs_of_a_directory_are_named(logdir: Path) -> None:
    assert b'"other_runs":["2025_01_01_10_00_00"]' in read(logdir).schema.metadata[b"native"]


def test_the_files_that_were_taken_are_named(logdir: Path) -> None:
    folder = "train/plugins/profile/2025_01_02_10_00_00"
    notices = {notice.code: notice for notice in up.summarize(up.read(logdir)).notices}
    text = notices["taken_newest_files"].text
    assert f"2 of the files in {logdir}" in text
    assert f"{folder}/one.xplane.pb, {folder}/two.xplane.pb. 1 older one was not read." in text


def test_hosts_do_not_share_lanes(logdir: Path) -> None:
    table = read(logdir)
    assert set(table.column("pid").to_pylist()) == {0, 1}


def test_neither_empty_directories_nor_missing_files_are_recognized(tmp_path: Path) -> None:
    assert not TensorFlowNormalizer().recognizes(tmp_path)
    assert not TensorFlowNormalizer().recognizes(tmp_path / "none.xplane.pb")


def test_a_directory_without_profiles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="no files of TensorFlow's profilers"):
        read(tmp_path)


def test_reading_needs_no_tensorflow() -> None:
    code = (
        "import sys; sys.modules['tensorflow'] = sys.modules['keras'] = None\n"
        "import unified_profiler as up\n"
        "from pathlib import Path\n"
        "for path in sys.argv[1:]:\n"
        "    assert up.read(path).traces[0].info.event_count > 30\n"
    )
    files = [str(file) for file in sorted(GOLDEN.glob("*.xplane.pb"))]
    done = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_reading_needs_no_protobuf_runtime_which_mindspore_switches_to_its_slow_implementation() -> None:
    code = (
        "import sys; sys.modules['google.protobuf'] = None\n"
        "import unified_profiler as up\n"
        "for path in sys.argv[1:]:\n"
        "    assert up.read(path).traces[0].info.event_count\n"
    )
    files = [str(file) for file in (EAGER, GOLDEN / "xla.xplane.pb", GOLDEN.parent / "run_metadata" / "train.pb")]
    done = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- values that no column can hold ---------------------------------------------------------------------------------


def event_of(broken: xplane_pb2.XSpace) -> xplane_pb2.XEvent:
    return broken.planes[0].lines[0].events[3]


def test_a_recording_that_begins_at_no_time_is_damage(normalize: Normalize) -> None:
    broken = space()
    task = next(plane for plane in broken.planes if plane.name == "Task Environment")
    (number,) = (key for key, entry in task.stat_metadata.items() if entry.name == "profile_start_time")
    stat = next(stat for stat in task.stats if stat.metadata_id == number)
    stat.uint64_value = (1 << 64) - 1
    with pytest.raises(TraceFormatError, match=r"host\.xplane\.pb"):
        normalize(broken.SerializeToString())


def test_an_event_that_ends_before_it_begins_is_named(normalize: Normalize) -> None:
    broken = space()
    event_of(broken).duration_ps = -5_000_000
    with pytest.raises(TraceFormatError, match=r"has duration_ns -5000; expected 0"):
        normalize(broken.SerializeToString())


@pytest.mark.parametrize("name", [f"Stream #{1 << 63}", f"Stream #{'9' * 5000}"])
def test_a_stream_that_no_column_holds_is_damage(name: str, normalize: Normalize) -> None:
    broken = space()
    broken.planes[0].name, broken.planes[0].lines[0].display_name = "/device:GPU:0", name
    with pytest.raises(TraceFormatError, match=r"host\.xplane\.pb"):
        normalize(broken.SerializeToString())


def test_messages_within_messages_without_end_are_damage(normalize: Normalize) -> None:
    deep = b""
    for _ in range(300):
        deep = b"\x0b" + deep + b"\x0c"  # a group, which may hold another
    with pytest.raises(TraceFormatError, match=r"host\.xplane\.pb"):
        normalize(EAGER.read_bytes() + deep)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A recording of this package: the RunMetadata of a session, the index of its runs, and the note beside it."""
    (tmp_path / "run_metadata").mkdir()
    shutil.copy(GOLDEN.parent / "run_metadata" / "multiply.pb", tmp_path / "run_metadata" / "run-00000.pb")
    return tmp_path


@pytest.mark.parametrize(
    "note",
    [
        b"{",
        b"[]",
        b'{"nodes": {"multiply": [{"result": ["x", 7]}]}}',
        b'{"names": {"multiply": [["layer"]]}}',
        b'{"names": ' + b"[" * 5000,
        b'{"roots": {"x": "\xff"}}',
    ],
)
def test_a_note_of_another_shape_is_damage(note: bytes, recorded: Path) -> None:
    (recorded / "live_objects.json").write_bytes(note)
    with pytest.raises(TraceFormatError, match=r"live_objects\.json cannot be read"):
        read(recorded)


@pytest.mark.parametrize("index", [b"[" * 5000, b"\xff", b"{", b"[7]"])
def test_a_damaged_index_of_runs_costs_no_run(index: bytes, recorded: Path) -> None:
    (recorded / "run_metadata" / "runs.json").write_bytes(index)
    assert len(read(recorded)) == 14


@pytest.mark.parametrize(
    "entry", ['"start_ns": "soon"', f'"start_ns": {1 << 63}', '"start_ns": -1e300', '"start_ns": []']
)
def test_a_run_at_no_time_is_damage(entry: str, recorded: Path) -> None:
    index = f'[{{"file": "run-00000.pb", {entry}, "end_ns": 5, "thread": 7}}]'
    (recorded / "run_metadata" / "runs.json").write_text(index)
    with pytest.raises(TraceFormatError, match=r"run-00000\.pb cannot be read"):
        read(recorded)
