"""What is read, on the real system: /proc against psutil, and a process that is really busy."""

from __future__ import annotations

import math
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import psutil
import pytest

from unified_profiler.recording.hardware.counters import PROCESS_MEMORY
from unified_profiler.recording.hardware.readings import CounterValues, Reading, Source
from unified_profiler.recording.hardware.sources import allocator_source, machine_sources
from unified_profiler.testing import FakeBackend

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these files")


@pytest.fixture
def proc() -> Iterator[dict[str, Source]]:
    from unified_profiler.recording.hardware.proc import proc_sources

    sources = {source.name: source for source in proc_sources()}
    yield sources
    for source in sources.values():
        source.close()


def amounts(read: Callable[[], object]) -> dict[tuple[str, str | None], float]:
    readings: list[Reading] = list(read())  # type: ignore[call-overload]
    return {(reading.counter.name, reading.device): reading.amount for reading in readings}


ALIKE = {
    "the memory of the process": 50e6,
    "the CPU time of the cores": 5,
    "the memory of the machine": 1e9,
    "the disk traffic of the process": 50e6,
    "the disk traffic of the machine": 1e9,
    "the network traffic of the machine": 1e9,
}
"""How far two readings one after the other may differ on a busy machine."""


@linux
@pytest.mark.parametrize("name", ALIKE)
def test_proc_tells_what_psutil_tells(name: str, proc: dict[str, Source]) -> None:
    from unified_profiler.recording.hardware.psutil_readings import psutil_sources

    asked = {source.name: source for source in psutil_sources()}
    assert list(asked) == list(proc) == list(ALIKE)
    first, second = amounts(proc[name].read), amounts(asked[name].read)
    assert set(first) == set(second)
    assert first == pytest.approx(second, abs=ALIKE[name])


@linux
def test_a_file_of_proc_is_read_anew_each_time_and_can_be_opened_again(proc: dict[str, Source]) -> None:
    source = proc["the memory of the process"]
    (before,) = amounts(source.read).values()
    held = bytearray(b"x" * 50_000_000)
    (after,) = amounts(source.read).values()
    assert after - before > len(held) / 2
    source.close()
    source.close()
    assert amounts(source.read)


@linux
@pytest.mark.parametrize("in_pieces", [True, False])
def test_files_longer_than_expected_are_read_to_their_end(in_pieces: bool, tmp_path: Path) -> None:
    from unified_profiler.recording.hardware.proc import ProcFile

    def length(text: bytes) -> Iterator[Reading]:
        yield Reading(PROCESS_MEMORY, len(text))

    (tmp_path / "long").write_bytes(b"x" * 100_000)
    file = ProcFile(str(tmp_path / "long"), length, in_pieces=in_pieces)
    assert [reading.amount for reading in (*file.read(), *file.read())] == [100_000, 100_000]
    file.close()


@linux
def test_files_that_a_container_does_not_have_are_no_sources(tmp_path: Path) -> None:
    from unified_profiler.recording.hardware.proc import proc_sources

    (tmp_path / "meminfo").write_text("MemTotal: 4 kB\nMemAvailable: 1 kB\n")
    (source,) = proc_sources(str(tmp_path))
    assert amounts(source.read) == {
        ("system memory used bytes", None): 3072,
        ("system memory available bytes", None): 1024,
    }
    source.close()


@linux
def test_parts_of_a_disk_do_not_count_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    from unified_profiler.recording.hardware import proc

    monkeypatch.setattr(proc, "_disks", lambda: {b"sda", b"nvme0n1"})
    text = b"""   8       0 sda 100 0 2000 5 10 0 400 1 0 0 0
   8       1 sda1 100 0 2000 5 10 0 400 1 0 0 0
 259       0 nvme0n1 1 0 8 5 1 0 16 1 0 0 0
"""
    assert [reading.amount for reading in proc.diskstats(text)] == [2008 * 512, 416 * 512]


@linux
def test_a_machine_without_disks_and_interfaces_tells_nothing_of_them() -> None:
    from unified_profiler.recording.hardware import proc

    assert list(proc.diskstats(b"")) == []
    assert list(proc.net_dev(b"heading\nheading\n    lo: 1 2 3 4 5 6 7 8 9\n")) == []


@linux
def test_cores_that_are_switched_off_leave_the_others_their_numbers() -> None:
    from unified_profiler.recording.hardware import proc

    text = b"cpu  3 0 0 9 0 0 0 0 0 0\ncpu0 1 0 0 5 0 0 0 0 0 0\ncpu3 2 0 0 4 7 0 0 1 2 0\nintr 5 0 0\nctxt 1\n"
    tick = 1 / proc._TICKS
    cores = {("core CPU %", "cpu:0"): 1 * tick, ("core CPU %", "cpu:3"): 3 * tick}
    machine = {("system CPU %", None): 2 * tick, ("system CPU steal %", None): 0.5 * tick}
    assert amounts(lambda: proc.stat(text)) == pytest.approx({**cores, **machine})


def test_psutil_tells_nothing_of_disks_and_interfaces_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from unified_profiler.recording.hardware import psutil_readings

    reader = psutil_readings.PsutilReader()
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: None)
    monkeypatch.setattr(psutil, "net_io_counters", lambda **_: {})
    monkeypatch.setattr(psutil_readings.PsutilReader, "_process", SimpleNamespace())
    assert [list(reader.disk()), list(reader.network()), list(reader.process_disk())] == [[], [], []]


def test_other_systems_are_asked_through_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [source.name for source in machine_sources() if source.name != "the waiting for cores"]
    monkeypatch.setattr(sys, "platform", "darwin")
    assert [source.name for source in machine_sources()] == names


def test_a_process_that_is_busy_is_seen_to_be_busy() -> None:
    """Measured by the CPU time of the process, which stands still while other programs have the core."""
    found = read_around_work(time.process_time_ns)
    assert found["process CPU %", None] == pytest.approx(100, rel=0.05)


def test_a_machine_that_is_busy_is_seen_to_be_busy() -> None:
    found = read_around_work(time.time_ns)
    assert found["process memory bytes", None] > 10_000_000
    assert 0 < found["system CPU %", None] <= 100
    assert found["core CPU %", "cpu:0"] <= 100
    assert found["system memory used bytes", None] + found["system memory available bytes", None] > 100_000_000


def read_around_work(clock: Callable[[], int]) -> dict[tuple[str, str | None], float]:
    """Read every source before and after a tenth of a second of CPU time, with the values as of the second time."""
    sources, values = machine_sources(), CounterValues()
    read(sources, values, clock)
    end = time.process_time() + 0.1
    while time.process_time() < end:
        math.sqrt(2)
    found = read(sources, values, clock)
    for source in sources:
        source.close()
    return found


def read(sources: list[Source], values: CounterValues, clock: Callable[[], int]) -> dict[tuple[str, str | None], float]:
    found = [values.value(reading, clock()) for source in sources for reading in source.read()]
    return {(value.name, value.device): value.value for value in found if value is not None}


def test_an_allocator_is_asked_once_its_framework_is_imported() -> None:
    source = allocator_source(FakeBackend(memory={"cuda:0": 5, "cuda:1": 7}))
    assert source is not None
    assert amounts(source.read) == {("fake memory bytes", "cuda:0"): 5, ("fake memory bytes", "cuda:1"): 7}
    assert allocator_source(FakeBackend(module="no_such_framework")) is None


def test_an_allocator_is_not_asked_when_its_framework_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "framework_that_goes", ModuleType("framework_that_goes"))
    source = allocator_source(FakeBackend(module="framework_that_goes", memory={"cuda:0": 5}))
    assert source is not None
    assert amounts(source.read) == {("fake memory bytes", "cuda:0"): 5}
    monkeypatch.delitem(sys.modules, "framework_that_goes")
    assert amounts(source.read) == {}


def test_a_backend_need_not_tell_its_memory() -> None:
    class Older(FakeBackend):
        allocated_bytes = None  # type: ignore[assignment]

    assert allocator_source(Older()) is None


@linux
def test_the_waiting_of_all_threads_is_added_up_but_not_that_of_the_reader(tmp_path: Path) -> None:
    from unified_profiler.recording.hardware.waiting import ThreadWaits

    def write(thread: int, waited_ns: int) -> None:
        folder = tmp_path / "self" / "task" / str(thread)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"5 {waited_ns} 7\n")

    waits = ThreadWaits(str(tmp_path))
    assert not waits.is_available()
    reader = threading.get_native_id()
    for thread, waited in ((-1, 4_000_000_000), (-2, 1_000_000_000), (reader, 0)):
        write(thread, waited)
    read = [amounts(waits.read)["process CPU wait %", None]]
    write(-1, 5_000_000_000)
    write(reader, 9_000_000_000)
    shutil.rmtree(tmp_path / "self" / "task" / "-2")
    write(-3, 500_000_000)
    read += [amounts(waits.read)["process CPU wait %", None]]
    waits.forget()
    write(-1, 8_000_000_000)
    read += [amounts(waits.read)["process CPU wait %", None]]
    assert read == [0, 1.5, 1.5]
