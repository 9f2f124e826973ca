"""The hardware layer: a thread that reads what `hardware_sources` tell while a cycle is recorded.

It reads once as recording begins, at regular intervals, and once more as recording ends. No source that fails, hangs
or costs much gets in the way of the training or of the other sources.
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
from unified_profiler.recording.hardware.readings import Source, Value, Values
from unified_profiler.recording.hardware.sources import allocator_source, machine_sources
from unified_profiler.recording.own_threads import OwnThread
from unified_profiler.spi import Backend

LANE = "hardware counters"
"""What the lane of the counters is called; it is no thread, so it has no number."""
PATIENCE_SECONDS = 1.0
"""How long the end of recording waits for a reading that is under way; none takes this long unless a driver hangs."""

Report = Callable[[Source, Exception], None]


class HardwareSampler:
    """Samples the cycles of one Profiler. With `hz` 0 it does nothing at all.

    Args:
        hz: Readings in a second.
        clock: Nanoseconds since the Unix epoch.
        faults: Where sources that fail are reported.
        sources: What is read besides the frameworks' allocators; everything there is if not given.
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
        self._abandoned: weakref.finalize[..., HardwareSampler] | None = None

    def prepare(self, backends: Sequence[Backend], *, cycle: int) -> None:
        """Prepare a cycle, in which the allocators of these backends' frameworks are asked, too."""
        self.sampling = None
        if self._hz:
            with self._faults.guard("hardware", "prepare", cycle=cycle):
                report = partial(_report, self._faults, cycle)  # the thread must not keep this sampler alive
                self.sampling = Sampling(self._now(backends), interval=1 / self._hz, clock=self._clock, report=report)

    def begin(self) -> None:
        """Begin to sample."""
        if self.sampling is not None:
            with self._faults.guard("hardware", "begin"):
                self.sampling.start()
                self._abandoned = weakref.finalize(self, self.sampling.leave)
                self._abandoned.atexit = False

    def end(self) -> None:
        """Read once more and stop; what was read can still be taken."""
        self._finish(read=True)

    def take(self, start_ns: int, end_ns: int) -> EventTable | None:
        """Return what was read as events of a window, and forget it; None if nothing is sampled."""
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
        """Stop and forget everything."""
        self._finish(read=False)
        self.sampling = None

    def _finish(self, *, read: bool) -> None:
        if self._abandoned is not None:
            self._abandoned.detach()
        if self.sampling is not None and not self.sampling.finish(read=read):
            self._hz = 0  # whatever the thread still does with its sources, no other one meets it there
            msg = f"reading {self.sampling.at_work_on} takes longer than {PATIENCE_SECONDS:g} s; sampling ends"
            self._faults.report("hardware", "end", TimeoutError(msg))

    def _now(self, backends: Sequence[Backend]) -> list[Source]:
        """Return all sources there are now, each the same as in the cycle before."""
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
        cpu_ns: The CPU time that the thread took from its beginning to its end.
        at_work_on: The name of what is being read, or was read last.
    """

    def __init__(self, sources: Sequence[Source], *, interval: float, clock: Callable[[], int], report: Report) -> None:
        self.cpu_ns = 0
        self.at_work_on = ""
        self._thread = OwnThread(self._run)
        self._sources = sources
        self._interval = interval
        self._clock = clock
        self._report = report
        self._over = threading.Lock()  # free when it is over; waiting for an Event costs thrice as much
        self._over.acquire()
        self._read_at_end = True
        self._spent_ns = 0
        self._waking_ns: float | None = None
        self._reading_ns: float | None = None
        self._rates = Values()
        self._values: deque[Value] = deque()

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def _run(self) -> None:
        self.read(every=True)
        due = time.monotonic() + self._interval
        while not self._over.acquire(timeout=max(due - time.monotonic(), self._interval / 2)):
            self.read()
            due = max(due + self._interval * self.stretch, time.monotonic())
        if self._read_at_end:
            self.read(every=True)
        for source in self._sources:
            source.close()
        self.cpu_ns = time.thread_time_ns()

    def finish(self, *, read: bool) -> bool:
        """Have it end, with a last reading or without; says whether it did."""
        self.leave(read=read)
        return self._thread.join(PATIENCE_SECONDS)

    def leave(self, *, read: bool = False) -> None:
        """Have it end whenever it comes to that."""
        if self._over.locked():
            self._read_at_end = read
            self._over.release()

    def take(self) -> list[Value]:
        """Return the values so far and forget them."""
        values = []
        while self._values:  # one by one: the thread may be adding others
            values.append(self._values.popleft())
        return values

    def read(self, *, every: bool = False) -> None:
        """Read the sources that are due, or every one."""
        waking_ns = self._spent()
        self._waking_ns = average(self._waking_ns, waking_ns)
        self._reading_ns = average(self._reading_ns, waking_ns + self._read_due(every=every))

    @property
    def stretch(self) -> float:
        """How many times longer intervals have to be than was asked for, to keep to the budget."""
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
        """Return the CPU time that this thread has taken since the last call."""
        before_ns, self._spent_ns = self._spent_ns, time.thread_time_ns()
        return self._spent_ns - before_ns

    def _read(self, source: Source) -> None:
        self.at_work_on = source.name
        try:
            now = self._clock()
            for reading in source.read():
                value = self._rates.value(reading, now)
                if value is not None:
                    self._values.append(value)
        except Exception as error:  # noqa: BLE001  whatever a driver or a file system raises stays here
            source.failed = True
            self._report(source, error)
