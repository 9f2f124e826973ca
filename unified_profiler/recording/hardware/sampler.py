"""Samples the hardware counters on a thread of its own while a cycle is recorded.

It reads when recording begins, at regular intervals, and when recording ends. A source that fails, hangs or is
expensive disturbs neither the training nor the other sources.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from unified_profiler.model.schema import EventTable, Kind, Layer, event_table
from unified_profiler.recording.faults import FaultLog
from unified_profiler.recording.hardware.costs import BUDGET_NS, average, fair_share
from unified_profiler.recording.hardware.readings import CounterValue, CounterValues, Source
from unified_profiler.recording.hardware.sources import allocator_source, machine_sources
from unified_profiler.recording.own_threads import OwnThread
from unified_profiler.spi import Backend

LANE = "hardware counters"
"""Name of the lane of the counters; it is not a thread, so it has no number."""
PATIENCE_SECONDS = 1.0
"""The end of recording waits this long for a reading in progress; none takes so long unless a driver hangs."""

Report = Callable[[Source, Exception], None]


class HardwareSampler:
    """Samples the cycles of one Profiler. With `hz` 0 it does nothing at all.

    Args:
        hz: Readings per second.
        clock: Returns nanoseconds since the Unix epoch.
        faults: Receives the failures of sources.
        sources: Returns the sources besides the frameworks' allocators; all of this machine by default.
    """

    def __init__(
        self,
        *,
        hz: float,
        clock: Callable[[], int],
        faults: FaultLog,
        sources: Callable[[], Iterable[Source]] = machine_sources,
    ) -> None:
        self.sampling: Sampling | None = None
        self._hz = hz
        self._clock = clock
        self._faults = faults
        self._make_sources = sources
        self._sources: dict[str, Source] = {}
        self._stop_when_dropped: weakref.finalize[..., HardwareSampler] | None = None

    def prepare(self, backends: Sequence[Backend], *, cycle: int) -> None:
        """Prepare a cycle in which the allocators of these backends are read, too."""
        self.sampling = None
        if self._hz:
            with self._faults.guard("hardware", "prepare", cycle=cycle):
                report = partial(_report, self._faults, cycle)  # the thread must not keep this sampler alive
                sources = self._current_sources(backends)
                self.sampling = Sampling(sources, interval=1 / self._hz, clock=self._clock, report=report)

    def begin(self) -> None:
        """Start sampling."""
        if self.sampling is not None:
            with self._faults.guard("hardware", "begin"):
                self.sampling.start()
                self._stop_when_dropped = weakref.finalize(self, self.sampling.request_stop)
                self._stop_when_dropped.atexit = False

    def end(self) -> None:
        """Read once more and stop; the values can still be taken."""
        self._finish(read=True)

    def take(self, start_ns: int, end_ns: int) -> EventTable | None:
        """Return the values as events of a window, and drop them; None if nothing is sampled."""
        if self.sampling is None:
            return None
        values = self.sampling.take()
        return event_table(
            {
                "name": [value.name for value in values],
                "layer": Layer.HARDWARE.value,
                "kind": Kind.COUNTER.value,
                "start_ns": [min(max(value.start_ns, start_ns), end_ns) for value in values],
                "duration_ns": 0,
                "pid": os.getpid(),
                "thread": LANE,
                "device": [value.device for value in values],
                "value": [value.value for value in values],
            },
            rows=len(values),
        )

    def discard(self) -> None:
        """Stop and drop all values."""
        self._finish(read=False)
        self.sampling = None

    def _finish(self, *, read: bool) -> None:
        if self._stop_when_dropped is not None:
            self._stop_when_dropped.detach()
        if self.sampling is not None and not self.sampling.finish(read=read):
            self._hz = 0  # the thread may still use the sources, so no other one may start
            msg = f"reading {self.sampling.current_source} takes longer than {PATIENCE_SECONDS:g} s; sampling ends"
            self._faults.report("hardware", "end", TimeoutError(msg))

    def _current_sources(self, backends: Sequence[Backend]) -> list[Source]:
        """Return all sources available now; they are the same objects in every cycle."""
        if not self._sources:
            self._sources = {source.name: source for source in self._make_sources()}
        for source in map(allocator_source, backends):
            if source is not None:
                self._sources.setdefault(source.name, source)
        return list(self._sources.values())


def _report(faults: FaultLog, cycle: int, source: Source, error: Exception) -> None:
    faults.report("hardware", f"read {source.name}", error, cycle=cycle)


class Sampling:
    """The readings of one cycle, on a thread of their own from `start` to `finish`.

    Attributes:
        cpu_ns: The CPU time of the finished thread.
        current_source: The name of the source that is being read, or was read last.
    """

    def __init__(self, sources: Sequence[Source], *, interval: float, clock: Callable[[], int], report: Report) -> None:
        self.cpu_ns = 0
        self.current_source = ""
        self._thread = OwnThread(self._run)
        self._sources = sources
        self._interval = interval
        self._clock = clock
        self._report = report
        self._running = threading.Lock()  # released to stop; waiting for an Event costs three times as much
        self._running.acquire()
        self._read_at_end = True
        self._spent_ns = 0
        self._waking_ns: float | None = None
        self._reading_ns: float | None = None
        self._converter = CounterValues()
        self._values: deque[CounterValue] = deque()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        self.read(every=True)
        due = time.monotonic() + self._interval
        while not self._running.acquire(timeout=max(due - time.monotonic(), self._interval / 2)):
            self.read()
            due = max(due + self._interval * self.stretch, time.monotonic())
        if self._read_at_end:
            self.read(every=True)
        for source in self._sources:
            source.close()
        self.cpu_ns = time.thread_time_ns()

    def finish(self, *, read: bool) -> bool:
        """Stop the thread, with or without a last reading; return whether it has ended."""
        self.request_stop(read=read)
        return self._thread.join(PATIENCE_SECONDS)

    def request_stop(self, *, read: bool = False) -> None:
        """Request the thread to stop, without waiting for it."""
        if self._running.locked():
            self._read_at_end = read
            self._running.release()

    def take(self) -> list[CounterValue]:
        """Return the values so far and drop them."""
        values = []
        while self._values:  # one by one, since the thread may be adding values
            values.append(self._values.popleft())
        return values

    def read(self, *, every: bool = False) -> None:
        """Read the sources that are due, or all of them."""
        waking_ns = self._spent()
        self._waking_ns = average(self._waking_ns, waking_ns)
        self._reading_ns = average(self._reading_ns, waking_ns + self._read_due(every=every))

    @property
    def stretch(self) -> float:
        """Factor by which intervals are longer than requested, to stay within the budget."""
        return max((self._reading_ns or 0) / BUDGET_NS, 1)

    def _read_due(self, *, every: bool) -> int:
        fair_ns, total_ns = fair_share(self._sources, BUDGET_NS - (self._waking_ns or 0)), 0
        for source in self._sources:
            if source.pauses and not every:
                source.pauses -= 1
            elif not source.failed:
                self._read(source)
                spent_ns = self._spent()
                total_ns += spent_ns
                source.cost_ns = average(source.cost_ns, spent_ns)
                source.pauses = max(source.every - 1, int(source.cost_ns / fair_ns))
        return total_ns

    def _spent(self) -> int:
        """Return the CPU time of this thread since the last call."""
        before_ns, self._spent_ns = self._spent_ns, time.thread_time_ns()
        return self._spent_ns - before_ns

    def _read(self, source: Source) -> None:
        self.current_source = source.name
        try:
            now = self._clock()
            for reading in source.read():
                value = self._converter.value(reading, now)
                if value is not None:
                    self._values.append(value)
        except Exception as error:  # noqa: BLE001  errors of drivers and file systems end here
            source.failed = True
            self._report(source, error)
