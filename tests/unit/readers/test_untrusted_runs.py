"""A run directory is data: no reader fails untyped, leaves the directory or replaces what is finished."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import unified_profiler as up
from unified_profiler import registry
from unified_profiler.delivery.pending import RECORD
from unified_profiler.errors import TraceFormatError
from unified_profiler.model.foreign import LIMIT_VARIABLE
from unified_profiler.model.schema import event_table
from unified_profiler.testing import FakeBackend

CYCLES = up.schedule(wait=1, warmup=0, active=2, repeat=2)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    fake = FakeBackend()
    monkeypatch.setattr(registry, "get", {"fake": fake}.__getitem__)
    return fake


def record(backend: FakeBackend, folder: Path, **options: Any) -> Path:
    """Record two cycles; return the folder of the rank."""
    prof = up.Profiler(
        schedule=CYCLES, hardware_hz=0, output_dir=folder, backend=backend, clock=backend.clock, **options
    )
    prof.start()
    for step in range(6):
        backend.op(f"fake::op{step}")
        prof.step()
    prof.stop(finish=False)
    (rank,) = folder.glob("*/rank-00000")
    return rank


@pytest.fixture
def rank(backend: FakeBackend, tmp_path: Path) -> Path:
    return record(backend, tmp_path / "runs")


@pytest.fixture
def left(backend: FakeBackend, tmp_path: Path) -> Path:
    """A rank whose process ended before it made traces of its cycles."""
    return record(backend, tmp_path / "runs", deliver="deferred")


def replace_by_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def replace_by_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def write_huge_numbers(file: Path) -> None:
    values = json.loads(file.read_text())
    file.write_text(json.dumps({**values, "started_ns": 10**400, "rank": 2**70}))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:100]),
    "no text": lambda file: file.write_bytes(b"\xff\xfe\x00" * 50),
    "nested": lambda file: file.write_bytes(b"[" * 100_000),
    "directory": replace_by_directory,
    "pipe": replace_by_pipe,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["manifest.json", "steps.arrow", "cycle-00000.parquet"])
def test_a_damaged_file_of_a_run_is_a_typed_error_that_names_it(name: str, damage: str, rank: Path) -> None:
    DAMAGES[damage](rank / name)
    with pytest.raises(TraceFormatError, match=name):
        up.read(rank.parent).traces[0].events.validate()


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_clocks_are_a_typed_error(damage: str, rank: Path) -> None:
    clocks = rank.parent / "clocks.json"
    clocks.write_text("{}")
    DAMAGES[damage](clocks)
    with pytest.raises(TraceFormatError, match=r"clocks\.json"):
        up.read(rank.parent)


def test_clocks_beyond_all_measure_are_a_typed_error(rank: Path) -> None:
    text = '{"method": "steps", "ranks": [{"rank": 0, "ahead_ns": 1e300}], "traces": [[0, 0], [0, 1]]}'
    (rank.parent / "clocks.json").write_text(text)
    with pytest.raises(TraceFormatError, match="ahead_ns"):
        up.read(rank.parent)


def test_huge_numbers_in_a_manifest_are_a_typed_error(rank: Path) -> None:
    write_huge_numbers(rank / "manifest.json")
    with pytest.raises(TraceFormatError, match="2 fields of its Manifest are wrong"):
        up.read(rank.parent)


@pytest.mark.parametrize("name", ["rank-x", "rank-1", "rank--0001", "rank-" + 5 * "\N{ARABIC-INDIC DIGIT ONE}"])
def test_a_folder_that_is_named_as_no_rank_is_says_so(name: str, rank: Path) -> None:
    (rank.parent / name).mkdir()
    with pytest.raises(TraceFormatError, match="folder of a rank"):
        up.read(rank.parent)


def test_steps_that_the_manifest_counts_and_the_file_lacks_are_no_silent_loss(rank: Path) -> None:
    content = (rank / "steps.arrow").read_bytes()
    (rank / "steps.arrow").write_bytes(content[: len(content) - 100])
    with pytest.raises(TraceFormatError, match="expected at least 6"):
        up.read(rank.parent)


def test_steps_that_were_cut_off_while_they_were_written_are_left_out(rank: Path) -> None:
    with (rank / "steps.arrow").open("ab") as file:
        file.write(b"\xff\xff\xff\xff\x00\x01\x00\x00cut")
    steps = up.read(rank.parent).steps
    assert steps is not None
    assert len(steps) == 6


def test_a_compressed_table_of_steps_is_refused(rank: Path) -> None:
    steps = up.read(rank.parent).steps
    feather.write_feather(steps, str(rank / "steps.arrow"), compression="zstd")
    with pytest.raises(TraceFormatError, match=r"steps\.arrow"):
        up.read(rank.parent)


def test_a_trace_with_more_events_than_memory_is_refused(rank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = up.read(rank.parent).traces[0]
    monkeypatch.setenv(LIMIT_VARIABLE, "100B")
    with pytest.raises(TraceFormatError, match=LIMIT_VARIABLE):
        _ = trace.events


def test_text_that_is_no_text_in_a_trace_is_a_typed_error(rank: Path) -> None:
    file = rank / "cycle-00000.parquet"
    table = pq.read_table(file)
    names = pa.array([b"\xff\xfe"] * len(table), pa.binary()).view(pa.string())
    place = table.schema.get_field_index("name")
    pq.write_table(table.set_column(place, pa.field("name", pa.string()), names), file)
    with pytest.raises(TraceFormatError, match="UTF8"):
        _ = up.read(rank.parent).traces[0].events


# --- nothing leads out of the directory ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["manifest.json", "steps.arrow", "cycle-00000.parquet"])
def test_a_link_out_of_a_run_is_not_followed(name: str, rank: Path, tmp_path: Path) -> None:
    (rank / name).rename(tmp_path / name)
    (rank / name).symlink_to(tmp_path / name)
    with pytest.raises(TraceFormatError, match="leads out of"):
        up.read(rank.parent)


def test_a_rank_that_is_a_link_out_of_a_run_is_not_followed(rank: Path, tmp_path: Path) -> None:
    rank.rename(tmp_path / "elsewhere")
    rank.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TraceFormatError, match="leads out of"):
        up.read(rank.parent)


def test_a_run_that_is_reached_through_a_link_is_read(rank: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(rank.parent)
    assert len(up.read(tmp_path / "link").traces) == 2


@pytest.mark.parametrize("name", ["pending", "native"])
def test_a_pending_or_native_folder_that_is_a_link_moves_nothing(name: str, left: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    if name == "pending":
        (left / name).rename(elsewhere)
    else:
        elsewhere.mkdir()
    (left / name).symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    with pytest.raises(TraceFormatError, match="leads out of"):
        up.read(left.parent)
    assert sorted(elsewhere.rglob("*")) == before


@pytest.mark.parametrize("file", ["/etc/hostname", "../../manifest.json", "fake/../../../../secret"])
def test_native_files_of_a_pending_cycle_are_looked_for_in_it_alone(file: str, left: Path) -> None:
    change(left, 0, lambda record: record["captures"][0].update(files=[file]))
    run = up.read(left.parent)
    assert [trace.info.cycle for trace in run.traces] == [1]
    (failure,) = run.manifests[0].failures
    assert "leads out of" in failure.error


def test_a_link_among_native_files_is_not_followed(left: Path, tmp_path: Path) -> None:
    native = left / "pending/cycle-00000/fake/fake.json"
    native.rename(tmp_path / "fake.json")
    native.symlink_to(tmp_path / "fake.json")
    run = up.read(left.parent)
    assert [trace.info.cycle for trace in run.traces] == [1]
    assert (tmp_path / "fake.json").exists()


# --- nothing finished is replaced ---------------------------------------------------------------------------------


def change(rank: Path, cycle: int, edit: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
    file = rank / f"pending/cycle-{cycle:05d}" / RECORD
    record = msgspec.json.decode(file.read_bytes())
    edit(record)
    file.write_bytes(msgspec.json.encode(record))


def test_a_pending_cycle_that_bears_the_number_of_another_replaces_nothing(left: Path) -> None:
    change(left, 1, lambda record: (record["window"].update(cycle=0), record["info"].update(cycle=0)))
    run = up.read(left.parent)
    finished = (left / "cycle-00000.parquet").read_bytes()
    assert [trace.info.cycle for trace in run.traces] == [0]
    assert "describes cycle 0 of rank 0, expected cycle-00001" in run.manifests[0].failures[0].error
    up.read(left.parent)
    assert (left / "cycle-00000.parquet").read_bytes() == finished


def test_a_pending_cycle_of_another_rank_is_refused(left: Path) -> None:
    change(left, 0, lambda record: record["info"].update(rank=7))
    assert "of rank 7, expected" in up.read(left.parent).manifests[0].failures[0].error


@pytest.mark.parametrize("way", ["link", "pipe", "device"])
def test_the_list_of_cycles_is_replaced_not_appended_to(way: str, left: Path, tmp_path: Path) -> None:
    listed, outside = left / "cycles.jsonl", tmp_path / "outside"
    listed.unlink(missing_ok=True)
    if way == "pipe":
        os.mkfifo(listed)
    else:
        listed.symlink_to(outside if way == "link" else "/dev/full")
    assert len(up.read(left.parent).traces) == 2
    assert not outside.exists()
    assert [json.loads(line)["file"] for line in listed.read_text().splitlines()] == [
        "cycle-00000.parquet",
        "cycle-00001.parquet",
    ]


def test_a_negative_step_in_a_pending_cycle_is_reported(left: Path) -> None:
    change(left, 0, lambda record: record.update(step=-2))
    run = up.read(left.parent)
    assert [trace.info.cycle for trace in run.traces] == [1]
    assert "cycle.json" in run.manifests[0].failures[0].error


def test_a_negative_number_of_events_is_a_typed_error(rank: Path) -> None:
    file = rank / "cycle-00000.parquet"
    table = pq.read_table(file)
    info = {**json.loads(table.schema.metadata[b"unified_profiler"]), "event_count": -1}
    pq.write_table(table.replace_schema_metadata({b"unified_profiler": json.dumps(info).encode()}), file)
    with pytest.raises(TraceFormatError, match="event_count"):
        up.read(rank.parent)


def test_a_trace_that_was_finished_before_stays_as_it_is(left: Path, tmp_path: Path) -> None:
    shutil.copytree(left / "pending", tmp_path / "pending")
    up.read(left.parent)
    finished = (left / "cycle-00000.parquet").read_bytes()
    shutil.copytree(tmp_path / "pending", left / "pending")
    change(left, 0, lambda record: record["window"].update(regions=[]))
    assert [trace.info.cycle for trace in up.read(left.parent).traces] == [0, 1]
    assert (left / "cycle-00000.parquet").read_bytes() == finished
    assert not (left / "pending").exists()


# --- what Arrow trusts --------------------------------------------------------------------------------------------

CRASH = """
import sys
import unified_profiler as up
from unified_profiler import registry
from unified_profiler.testing import FakeBackend
registry.get = {"fake": FakeBackend()}.__getitem__
run = up.read(sys.argv[1])
for trace in run.traces:
    trace.events.unify_dictionaries().validate(full=True)
print(len(run.traces), [failure.error for failure in run.manifests[0].failures])
"""


@pytest.mark.parametrize("index", [-1, 7, 2**31 - 1, -(2**31)])
def test_indices_of_a_damaged_pending_cycle_do_not_end_the_process(index: int, left: Path) -> None:
    """Among calls, under a null and elsewhere."""
    names = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["f"]))
    values = np.array([index, index], np.int32)
    data = pa.Array.from_buffers(pa.int32(), 2, [pa.array([True, False]).buffers()[1], pa.py_buffer(values)])
    module = pa.DictionaryArray.from_arrays(data, pa.array(["m"]), safe=False)
    columns = {
        "name": names,
        "layer": "api",
        "kind": "api_call",
        "start_ns": [1, 2],
        "duration_ns": 1,
        "module": module,
    }
    calls = event_table(columns, rows=2)
    with (
        pa.OSFile(str(left / "pending/cycle-00000/calls.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, calls.schema) as writer,
    ):
        writer.write_table(calls)
    done = subprocess.run([sys.executable, "-c", CRASH, str(left.parent)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 ")
    assert "calls.arrow cannot be read" in done.stdout
