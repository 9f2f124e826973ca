"""The sampler: when it reads, what becomes of sources that fail, hang or cost much, and how its thread ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from unified_profiler.recording.faults import FaultLog
from unified_profiler.recording.hardware.costs import BUDGET_NS, average
from unified_profiler.recording.hardware.counters import PROCESS_CPU, PROCESS_MEMORY
from unified_profiler.recording.hardware.readings import Reading, Source
from unified_profiler.recording.hardware.sampler import HardwareSampler, Sampling
from unified_profiler.recording.own_threads import on_own_thread
from unified_profiler.testing import FakeBackend, FakeClock

MS = 1_000_000
NEVER = 0.001
"""Readings in a second: none but the first and the last comes about in a test."""


class Machine:
    """A machine whose memory grows by a byte, and whose CPU time grows by 5 ms of 10, at each reading."""

    def __init__(self) -> None:
        self.clock = FakeClock(tick_ns=0)
        self.readings = 0
        self.threads: list[bool] = []
        self.closed = 0
        self.faults = FaultLog(strict=False)

    def read(self) -> Iterator[Reading]:
        self.threads.append(on_own_thread())
        self.readings += 1
        self.clock.advance(10 * MS)
        yield Reading(PROCESS_MEMORY, self.readings)
        yield Reading(PROCESS_CPU, self.readings * 0.005)

    def close(self) -> None:
        self.closed += 1

    def sampler(self, *others: Source, hz: float = NEVER) -> HardwareSampler:
        def sources() -> Iterable[Source]:
            return [*others, Source("all", self.read, close=self.close)]

        return HardwareSampler(hz=hz, clock=self.clock, faults=self.faults, sources=sources)


def cycle(sampler: HardwareSampler, *backends: FakeBackend, number: int = 0) -> list[dict[str, Any]]:
    sampler.prepare(backends, cycle=number)
    sampler.begin()
    sampler.end()
    table = sampler.take(0, 1 << 62)
    return [] if table is None else table.to_pylist()


def failing() -> Iterator[Reading]:
    message = "/proc/nowhere"
    raise FileNotFoundError(message)


def test_the_beginning_and_the_end_of_recording_are_read() -> None:
    machine = Machine()
    start = machine.clock.now_ns
    rows = cycle(machine.sampler())
    assert [(row["name"], row["start_ns"] - start, row["value"]) for row in rows] == [
        ("process memory bytes", 0, 1),
        ("process memory bytes", 10 * MS, 2),
        ("process CPU %", 0, pytest.approx(50)),
    ]


def test_values_are_counters_of_the_hardware_layer_and_of_no_thread() -> None:
    for row in cycle(Machine().sampler()):
        assert (row["layer"], row["kind"], row["framework"]) == ("hardware", "counter", None)
        assert (row["duration_ns"], row["tid"], row["thread"]) == (0, None, "hardware counters")


def test_everything_is_read_on_a_thread_of_the_profilers_which_lets_go_of_it_at_the_end() -> None:
    machine = Machine()
    cycle(machine.sampler())
    assert (machine.threads, machine.closed) == ([True, True], 1)
    assert not on_own_thread()


def test_each_cycle_begins_anew() -> None:
    machine = Machine()
    sampler = machine.sampler()
    assert len(cycle(sampler)) == len(cycle(sampler, number=1)) == 3


def test_with_no_readings_there_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unified_profiler.recording.hardware.sampler.OwnThread", None)
    machine = Machine()
    sampler = machine.sampler(hz=0)
    assert cycle(sampler) == []
    sampler.discard()
    assert machine.readings == 0


def test_discarding_reads_no_more_and_forgets() -> None:
    machine = Machine()
    sampler = machine.sampler()
    sampler.prepare((), cycle=0)
    sampler.begin()
    sampler.discard()
    sampler.discard()
    assert (machine.readings, machine.closed, sampler.take(0, 1)) == (1, 1, None)


def test_what_was_prepared_and_never_begun_can_be_discarded() -> None:
    machine = Machine()
    sampler = machine.sampler()
    sampler.prepare((), cycle=0)
    sampler.discard()
    assert machine.readings == 0


def test_values_go_to_the_window_in_which_they_are_taken_and_lie_in_it() -> None:
    machine = Machine()
    sampling = Sampling([Source("all", machine.read)], interval=1, clock=machine.clock, report=fail)
    sampler = machine.sampler()
    sampler.sampling = sampling
    sampling.read()
    start = machine.clock.now_ns
    assert [row["value"] for row in taken(sampler, start, start)] == [1]
    sampling.read()
    rows = taken(sampler, start, start + 1)
    assert [row["name"] for row in rows] == ["process memory bytes", "process CPU %"]
    assert {row["start_ns"] for row in rows} == {start}, "the rate was measured from before on"
    assert taken(sampler, start, start) == []


def taken(sampler: HardwareSampler, start_ns: int, end_ns: int) -> list[dict[str, Any]]:
    table = sampler.take(start_ns, end_ns)
    assert table is not None
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def fail(source: Source, error: Exception) -> None:
    raise AssertionError(source.name) from error


# --- faults ------------------------------------------------------------------------------------------------------


def test_a_source_that_fails_is_reported_once_and_the_others_go_on() -> None:
    machine = Machine()
    sampler = machine.sampler(Source("the sea", failing))
    assert len(cycle(sampler)) == len(cycle(sampler, number=1)) == 3
    (failure,) = machine.faults.failures
    assert (failure.source, failure.action, failure.cycle) == ("hardware", "read the sea", 0)
    assert failure.error == "FileNotFoundError: /proc/nowhere"


def test_a_framework_that_fails_to_tell_its_memory_is_a_failure_of_its_own() -> None:
    machine = Machine()
    bad = FakeBackend("bad", module="os", fails_at=frozenset({"allocated_bytes"}))
    rows = cycle(machine.sampler(), FakeBackend(memory={"cuda:0": 7}), bad)
    assert ("fake memory bytes", "cuda:0", 7) in [(row["name"], row["device"], row["value"]) for row in rows]
    assert [failure.action for failure in machine.faults.failures] == ["read the memory of bad"]


def test_sources_that_cannot_be_made_are_a_failure() -> None:
    faults = FaultLog(strict=False)
    sampler = HardwareSampler(hz=1, clock=FakeClock(), faults=faults, sources=failing)  # type: ignore[arg-type]
    assert cycle(sampler) == []
    assert [failure.action for failure in faults.failures] == ["prepare"]


def test_a_thread_that_cannot_be_started_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr("_thread.start_new_thread", refuse)
    machine = Machine()
    assert cycle(machine.sampler()) == []
    assert [failure.action for failure in machine.faults.failures] == ["begin"]


def test_a_source_that_hangs_holds_nobody_up_and_ends_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unified_profiler.recording.hardware.sampler.PATIENCE_SECONDS", 0.01)
    machine, asked, answer = Machine(), threading.Event(), threading.Event()

    def hanging() -> Iterator[Reading]:
        asked.set()
        answer.wait()
        yield Reading(PROCESS_MEMORY, -1)

    sampler = machine.sampler(Source("a broken driver", hanging))
    sampler.prepare((), cycle=0)
    sampler.begin()
    assert asked.wait(600), "the thread is at the source, however late it was given a core"
    sampler.end()
    hung = sampler.sampling
    assert taken(sampler, 0, 1) == []
    assert cycle(sampler, number=1) == []
    answer.set()
    (failure,) = machine.faults.failures
    assert failure.error == "TimeoutError: reading a broken driver takes longer than 0.01 s; sampling ends"
    assert hung is not None
    monkeypatch.setattr("unified_profiler.recording.hardware.sampler.PATIENCE_SECONDS", 60)
    assert hung.finish(read=False), "it ends when it can"


# --- what it costs -----------------------------------------------------------------------------------------------


def counted(sources: dict[str, Source], rounds: int) -> dict[str, int]:
    counts = dict.fromkeys(sources, 0)

    def counting(name: str, cost_ns: float | None) -> Callable[[], Iterable[Reading]]:
        def read() -> Iterable[Reading]:
            counts[name] += 1
            sources[name].cost_ns = cost_ns  # what this test itself takes is not to count
            return ()

        return read

    for name, source in sources.items():
        source.read = counting(name, source.cost_ns)
    sampling = Sampling(list(sources.values()), interval=1, clock=FakeClock(), report=fail)
    for _ in range(rounds):
        sampling.read()
    return counts


def nothing() -> Iterable[Reading]:
    return ()


def test_sources_have_their_rhythm() -> None:
    sources = {"always": Source("always", nothing), "seldom": Source("seldom", nothing, every=5)}
    assert counted(sources, 11) == {"always": 11, "seldom": 3}


def test_what_costs_much_is_read_less_often_the_rest_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "unified_profiler.recording.hardware.sampler.average", lambda before_ns, spent_ns: before_ns or 0.0
    )
    sources = {
        "cheap": Source("cheap", nothing, cost_ns=BUDGET_NS / 100),
        "dear": Source("dear", nothing, cost_ns=BUDGET_NS * 2),
    }
    assert counted(sources, 25) == {"cheap": 25, "dear": 9}, "what the cheap one leaves is for the dear one"


def test_as_long_as_all_of_it_is_cheap_everything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "unified_profiler.recording.hardware.sampler.average", lambda before_ns, spent_ns: before_ns or 0.0
    )
    half = BUDGET_NS * 0.45
    sources = {name: Source(name, nothing, cost_ns=half) for name in ("one", "two")}
    assert counted(sources, 10) == {"one": 10, "two": 10}


def test_the_first_reading_of_a_source_which_opens_things_does_not_count() -> None:
    cost: float | None = None
    for spent_ns in (80_000_000, 8000, 8000):
        cost = average(cost, spent_ns)
    assert cost is not None
    assert 0 < cost < 8000


@pytest.mark.parametrize(("cost_ns", "stretch"), [(0, 1), (BUDGET_NS / 2, 1), (BUDGET_NS * 3, 3)])
def test_if_everything_costs_much_all_of_it_is_read_less_often(
    cost_ns: float, stretch: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unified_profiler.recording.hardware.sampler.average", lambda before_ns, spent_ns: cost_ns)
    sampling = Sampling([], interval=1, clock=FakeClock(), report=fail)
    assert sampling.stretch == 1
    sampling.read()
    assert sampling.stretch == stretch


def test_the_last_reading_reads_every_source() -> None:
    machine = Machine()
    source = Source("seldom", machine.read, every=5, pauses=4)
    sampling = Sampling([source], interval=1, clock=FakeClock(), report=fail)
    sampling.read()
    assert machine.readings == 0
    sampling.read(every=True)
    assert machine.readings == 1
