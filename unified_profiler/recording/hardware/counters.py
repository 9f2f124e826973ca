"""The counters of the hardware layer: the one list of them, with which the documentation's table is compared."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_TICK_NS = 10_000_000
"""Linux counts the time of cores in ticks of this length."""


@dataclass(frozen=True, kw_only=True)
class Counter:
    """A quantity over time.

    Attributes:
        name: Its name, with the unit.
        meaning: What it is, in a few words.
        devices: What its `device` column says; nothing for counters of the whole process or machine.
        factor: 0 for a level, which is recorded as it is read. A total, which only grows, is recorded as what it grows
            by in a second, times this factor.
        shortest_ns: The shortest interval over which the growth of a total says something.
        at_most: The largest value there can be, which rounding to ticks may exceed.
    """

    name: str
    meaning: str
    devices: str = ""
    factor: float = 0
    shortest_ns: int = 1_000_000
    at_most: float = math.inf

    def of(self, framework: str) -> Counter:
        """Return the counter of one framework."""
        return replace(self, name=self.name.replace("<framework>", framework))


PROCESS_CPU = Counter(name="process CPU %", meaning="cores that this process kept busy; 100 is one core", factor=100)
PROCESS_CPU_WAIT = Counter(
    name="process CPU wait %",
    meaning="threads of this process that were ready to run and waited for a core; 100 is one thread all the time",
    factor=100,
)
SYSTEM_CPU = Counter(
    name="system CPU %",
    meaning="how busy all cores were, by whatever process; 100 is all of them",
    factor=100,
    shortest_ns=5 * _TICK_NS,
    at_most=100,
)
CORE_CPU = replace(SYSTEM_CPU, name="core CPU %", meaning="how busy one core was", devices="`cpu:0`, `cpu:1`...")
SYSTEM_STEAL = replace(
    SYSTEM_CPU,
    name="system CPU steal %",
    meaning="time of all cores that a hypervisor gave to other machines; part of `system CPU %`",
)
PROCESS_MEMORY = Counter(name="process memory bytes", meaning="resident memory of this process")
SYSTEM_MEMORY_USED = Counter(name="system memory used bytes", meaning="memory of the machine in use")
SYSTEM_MEMORY_AVAILABLE = Counter(
    name="system memory available bytes", meaning="memory of the machine that can be had without swapping"
)
FRAMEWORK_MEMORY = Counter(
    name="<framework> memory bytes",
    meaning="memory that the allocator of `torch`, `tensorflow` or `mindspore` has given out and not got back",
    devices="`cuda:0`, `npu:0`...",
)
PROCESS_DISK_READ = Counter(
    name="process disk read bytes/s",
    meaning="what this process had read from disks, not from the page cache",
    factor=1,
)
PROCESS_DISK_WRITE = Counter(
    name="process disk write bytes/s", meaning="what this process caused to be written to disks", factor=1
)
SYSTEM_DISK_READ = Counter(name="system disk read bytes/s", meaning="what all processes had read from disks", factor=1)
SYSTEM_DISK_WRITE = Counter(
    name="system disk write bytes/s", meaning="what all processes caused to be written to disks", factor=1
)
NETWORK_RECEIVE = Counter(
    name="system network receive bytes/s", meaning="received by all interfaces but loopback", factor=1
)
NETWORK_SEND = Counter(name="system network send bytes/s", meaning="sent by all interfaces but loopback", factor=1)
GPU_UTILIZATION = Counter(
    name="GPU utilization %",
    meaning="share of time in which a kernel ran on the GPU, of whatever process, as NVML tells it",
    devices="`cuda:0`, `cuda:1`...",
)
GPU_MEMORY = replace(
    GPU_UTILIZATION, name="GPU memory used bytes", meaning="memory of the GPU in use, by whatever process"
)

COUNTERS: tuple[Counter, ...] = (
    PROCESS_CPU,
    PROCESS_CPU_WAIT,
    SYSTEM_CPU,
    CORE_CPU,
    SYSTEM_STEAL,
    PROCESS_MEMORY,
    SYSTEM_MEMORY_USED,
    SYSTEM_MEMORY_AVAILABLE,
    FRAMEWORK_MEMORY,
    PROCESS_DISK_READ,
    PROCESS_DISK_WRITE,
    SYSTEM_DISK_READ,
    SYSTEM_DISK_WRITE,
    NETWORK_RECEIVE,
    NETWORK_SEND,
    GPU_UTILIZATION,
    GPU_MEMORY,
)
