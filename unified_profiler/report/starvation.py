"""Detects processes that did not get the CPU time their threads wanted, from hardware counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from unified_profiler.model.records import TraceInfo
from unified_profiler.model.run import Run
from unified_profiler.recording.hardware.counters import (
    CORE_CPU,
    PROCESS_CPU,
    PROCESS_CPU_WAIT,
    SYSTEM_CPU,
    SYSTEM_STEAL,
)
from unified_profiler.report.counters import Counter
from unified_profiler.report.records import StepParts

_SHORTEST_NS = 500_000_000
"""Shortest recorded time of a rank for which its counters are meaningful."""
_LEAST_GOT = 0.5
"""A process is starved below this share of the CPU time it wanted."""
_LEAST_MISSING = 0.25
"""Smallest lack of CPU time, in cores, so that a process that hardly runs is not reported."""
_OWN_SHARE = 0.5
"""A process that uses at least this share of all cores has too many threads and waits for itself."""
MUCH_STOLEN = 0.1
"""Share of the time of all cores above which a hypervisor starves processes."""
_BUSY = 0.9
"""Busy share of all cores above which processes starve each other."""


@dataclass(frozen=True)
class Starvation:
    """A rank that did not get the CPU time it wanted. Shares are of all cores of the machine."""

    rank: int
    got_cores: float
    wanted_cores: float
    """Lower bound."""
    busy_share: float | None
    """By all processes."""
    stolen_share: float | None


def starved_ranks(run: Run, curves: Sequence[Counter], parts: Callable[[], StepParts]) -> Iterator[Starvation]:
    """Yield the ranks that were clearly starved while they were recorded."""
    hardware = (curve for curve in curves if curve.hardware)
    for rank, own in groupby(hardware, key=lambda curve: curve.rank):
        usage = _Usage.of(run.select(rank=rank), list(own))
        if usage is not None and usage.observed_ns >= _SHORTEST_NS:
            wanted = usage.wanted_cores(parts())
            if wanted is not None and usage.is_starved(wanted):
                yield Starvation(rank, usage.cpu, wanted, usage.system, usage.steal)


@dataclass(frozen=True)
class _Usage:
    """Averages over the recorded time of one rank, in cores; `system` and `steal` as shares of all cores."""

    observed_ns: int
    cpu: float
    wait: float | None
    system: float | None
    steal: float | None
    core_count: int

    @classmethod
    def of(cls, run: Run, curves: Sequence[Counter]) -> _Usage | None:
        by_name = {curve.name: curve for curve in curves if curve.device is None}
        cpu = by_name.get(PROCESS_CPU.name)
        infos = [trace.info for trace in run.traces if cpu is not None and _mean(cpu, trace.info) is not None]
        if not infos:
            return None
        return cls(
            observed_ns=sum(map(_recorded_ns, infos)),
            cpu=_average(cpu, infos) or 0.0,
            wait=_average(by_name.get(PROCESS_CPU_WAIT.name), infos),
            system=_average(by_name.get(SYSTEM_CPU.name), infos),
            steal=_average(by_name.get(SYSTEM_STEAL.name), infos),
            core_count=sum(curve.name == CORE_CPU.name for curve in curves),
        )

    def wanted_cores(self, parts: StepParts) -> float | None:
        """Return a lower bound of the cores the process could have used; None if unknown.

        If the system does not count how long threads waited for a core, the share of time in operators is taken, but
        only on a busy machine; elsewhere they may have waited for something else.
        """
        if self.wait is not None:
            return self.cpu + self.wait
        crowded = (self.system or 0.0) >= _BUSY or (self.steal or 0.0) >= MUCH_STOLEN
        if not crowded or not parts.wall_ns or parts.collective_ns or parts.copy_ns:
            return None
        return max(self.cpu, parts.op_ns / parts.wall_ns)

    def is_starved(self, wanted: float) -> bool:
        """Return whether it lacked much of the CPU time it wanted, and did not wait for its own threads."""
        waits_for_itself = self.core_count > 0 and self.cpu >= _OWN_SHARE * self.core_count
        return self.cpu < _LEAST_GOT * wanted and wanted - self.cpu >= _LEAST_MISSING and not waits_for_itself


def _recorded_ns(info: TraceInfo) -> int:
    return max(info.end_ns - info.start_ns, 0)


def _average(curve: Counter | None, infos: Sequence[TraceInfo]) -> float | None:
    """Return the average over traces, weighted by their recorded time, as a fraction of one core or of all."""
    means = [] if curve is None else [(_mean(curve, info), _recorded_ns(info)) for info in infos]
    known = [(mean / 100, weight) for mean, weight in means if mean is not None]
    total = sum(weight for _, weight in known)
    return sum(mean * weight for mean, weight in known) / total if total else None


def _mean(curve: Counter, info: TraceInfo) -> float | None:
    """Return the average during a trace, each value weighted by the time to the next; None without a value."""
    first = np.searchsorted(curve.time_ns, info.start_ns, side="left")
    end = np.searchsorted(curve.time_ns, info.end_ns, side="right")
    time, value = curve.time_ns[first:end], curve.value[first:end]
    if not len(time):
        return None
    lasted = np.diff(time, append=info.end_ns)
    return float(np.average(value, weights=lasted) if lasted.any() else value.mean())
