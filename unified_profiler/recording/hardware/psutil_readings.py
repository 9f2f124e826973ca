"""Readings of systems other than Linux, through psutil."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import psutil

from unified_profiler.recording.hardware import counters
from unified_profiler.recording.hardware.readings import LESS_OFTEN, SELDOM, Reading, Source

_NOT_BUSY = ("idle", "iowait", "guest", "guest_nice")
"""Kinds of time that are idle or, as that of guests, contained in another kind."""


class PsutilReader:
    """Asks psutil."""

    @cached_property
    def _process(self) -> Any:
        return psutil.Process()

    def process_memory(self) -> Iterator[Reading]:
        """Read the memory of this process."""
        yield Reading(counters.PROCESS_MEMORY, self._process.memory_info().rss)

    def cores(self) -> Iterator[Reading]:
        """Read the time of all cores."""
        cores = psutil.cpu_times(percpu=True)
        busy = [_busy_seconds(core) for core in cores]
        for number, seconds in enumerate(busy):
            yield Reading(counters.CORE_CPU, seconds, f"cpu:{number}")
        yield Reading(counters.SYSTEM_CPU, sum(busy) / len(busy))
        if hasattr(cores[0], "steal"):
            yield Reading(counters.SYSTEM_STEAL, sum(core.steal for core in cores) / len(cores))

    def memory(self) -> Iterator[Reading]:
        """Read the memory of the machine."""
        memory = psutil.virtual_memory()
        yield Reading(counters.SYSTEM_MEMORY_USED, memory.total - memory.available)
        yield Reading(counters.SYSTEM_MEMORY_AVAILABLE, memory.available)

    def process_disk(self) -> Iterator[Reading]:
        """Read the disk traffic of this process, where the system tells it."""
        if hasattr(self._process, "io_counters"):
            done = self._process.io_counters()
            yield Reading(counters.PROCESS_DISK_READ, done.read_bytes)
            yield Reading(counters.PROCESS_DISK_WRITE, done.write_bytes)

    def disk(self) -> Iterator[Reading]:
        """Read the traffic of all disks, if there are any."""
        done = psutil.disk_io_counters(nowrap=False)  # a total that begins anew is left out anyway
        if done is not None:
            yield Reading(counters.SYSTEM_DISK_READ, done.read_bytes)
            yield Reading(counters.SYSTEM_DISK_WRITE, done.write_bytes)

    def network(self) -> Iterator[Reading]:
        """Read the traffic of all interfaces but loopback."""
        interfaces = psutil.net_io_counters(pernic=True, nowrap=False)
        done = [traffic for name, traffic in interfaces.items() if not name.startswith("lo")]
        if done:
            yield Reading(counters.NETWORK_RECEIVE, sum(traffic.bytes_recv for traffic in done))
            yield Reading(counters.NETWORK_SEND, sum(traffic.bytes_sent for traffic in done))


def psutil_sources() -> list[Source]:
    """Return everything that is asked of psutil."""
    ask = PsutilReader()
    return [
        Source("the memory of the process", ask.process_memory),
        Source("the CPU time of the cores", ask.cores, LESS_OFTEN),
        Source("the memory of the machine", ask.memory, SELDOM),
        Source("the disk traffic of the process", ask.process_disk, SELDOM),
        Source("the disk traffic of the machine", ask.disk, SELDOM),
        Source("the network traffic of the machine", ask.network, SELDOM),
    ]


def _busy_seconds(core: Any) -> float:
    return float(sum(core) - sum(getattr(core, kind, 0.0) for kind in _NOT_BUSY))
