"""Reads hardware counters through psutil, on systems other than Linux."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import psutil

from unified_profiler.recording.hardware import counters
from unified_profiler.recording.hardware.readings import LESS_OFTEN, SELDOM, Reading, Source

_NOT_BUSY = ("idle", "iowait", "guest", "guest_nice")
"""Times that are idle or, as those of guests, part of another time."""


class PsutilReader:
    """Reads the counters of psutil."""

    @cached_property
    def _process(self) -> Any:
        return psutil.Process()

    def process_memory(self) -> Iterator[Reading]:
        """Read the memory of this process."""
        yield Reading(counters.PROCESS_MEMORY, self._process.memory_info().rss)

    def cores(self) -> Iterator[Reading]:
        """Read the time of all cores."""
        cores = psutil.cpu_times(percpu=True)
        busy = [float(sum(core) - sum(getattr(core, kind, 0.0) for kind in _NOT_BUSY)) for core in cores]
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
        """Read the disk traffic of this process, where the system reports it."""
        if hasattr(self._process, "io_counters"):
            traffic = self._process.io_counters()
            yield Reading(counters.PROCESS_DISK_READ, traffic.read_bytes)
            yield Reading(counters.PROCESS_DISK_WRITE, traffic.write_bytes)

    def disk(self) -> Iterator[Reading]:
        """Read the traffic of all disks, if there are any."""
        traffic = psutil.disk_io_counters(nowrap=False)  # a total that wraps is skipped by `CounterValues`
        if traffic is not None:
            yield Reading(counters.SYSTEM_DISK_READ, traffic.read_bytes)
            yield Reading(counters.SYSTEM_DISK_WRITE, traffic.write_bytes)

    def network(self) -> Iterator[Reading]:
        """Read the traffic of all interfaces except loopback."""
        interfaces = psutil.net_io_counters(pernic=True, nowrap=False)
        traffic = [counts for name, counts in interfaces.items() if not name.startswith("lo")]
        if traffic:
            yield Reading(counters.NETWORK_RECEIVE, sum(counts.bytes_recv for counts in traffic))
            yield Reading(counters.NETWORK_SEND, sum(counts.bytes_sent for counts in traffic))


def psutil_sources() -> list[Source]:
    """Return the sources that psutil reads."""
    reader = PsutilReader()
    return [
        Source("the memory of the process", reader.process_memory),
        Source("the CPU time of the cores", reader.cores, LESS_OFTEN),
        Source("the memory of the machine", reader.memory, SELDOM),
        Source("the disk traffic of the process", reader.process_disk, SELDOM),
        Source("the disk traffic of the machine", reader.disk, SELDOM),
        Source("the network traffic of the machine", reader.network, SELDOM),
    ]
