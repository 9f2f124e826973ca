"""Detects processes that did not get the CPU time their threads wanted, from hardware counters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


def starved_ranks(run: Run, curves: Sequence[Counter], parts: StepParts) -> Iterator[Starvation]:
    """Yield the ranks that were clearly starved while they were recorded."""
    by_rank: dict[int, list[Counter]] = defaultdict(list)
    for curve in curves:
        if curve.hardware:
            by_rank[curve.rank].append(curve)
    for rank, own in by_rank.items():
        usage = _Usage.of(run.select(rank=rank), own)
        if usage is not None and usage.observed_ns >= _SHORTEST_NS:
            wanted = usage.wanted_cores(parts)
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
        parts = [_Means.of(trace.info, curves) for trace in run.traces]
        known = [part for part in parts if PROCESS_CPU.name in part.values]
        if not known:
            return None
        observed = [part.observed_ns for part in known]
        values = {counter.name: _average(known, counter.name, observed) for counter in _READ}
        return cls(
            observed_ns=sum(observed),
            cpu=values[PROCESS_CPU.name] or 0.0,
            wait=values[PROCESS_CPU_WAIT.name],
            system=values[SYSTEM_CPU.name],
            steal=values[SYSTEM_STEAL.name],
            core_count=max(part.core_count for part in known),
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


_READ = (PROCESS_CPU, PROCESS_CPU_WAIT, SYSTEM_CPU, SYSTEM_STEAL)


@dataclass(frozen=True)
class _Means:
    """Averages of the counters over one trace."""

    observed_ns: int
    values: dict[str, float]
    core_count: int

    @classmethod
    def of(cls, info: TraceInfo, curves: Sequence[Counter]) -> _Means:
        means = {curve.name: _mean(curve, info) for curve in curves if curve.device is None}
        return cls(
            observed_ns=max(info.end_ns - info.start_ns, 0),
            values={name: mean / 100 for name, mean in means.items() if mean is not None},
            core_count=sum(curve.name == CORE_CPU.name for curve in curves),
        )


def _mean(curve: Counter, info: TraceInfo) -> float | None:
    """Return the average during a trace, each value weighted by the time to the next; None without a value."""
    first = np.searchsorted(curve.time_ns, info.start_ns, side="left")
    end = np.searchsorted(curve.time_ns, info.end_ns, side="right")
    time, value = curve.time_ns[first:end], curve.value[first:end]
    if not len(time):
        return None
    lasted = np.diff(time, append=info.end_ns)
    return float(np.average(value, weights=lasted) if lasted.any() else value.mean())


def _average(parts: Sequence[_Means], name: str, weights: Sequence[int]) -> float | None:
    known = [(part.values[name], weight) for part, weight in zip(parts, weights, strict=True) if name in part.values]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None
