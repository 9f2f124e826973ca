"""Lists all counters of the hardware layer; a test compares the table in the documentation with it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_TICK_NS = 10_000_000
"""Length of the ticks in which Linux counts the time of cores."""


@dataclass(frozen=True, kw_only=True)
class Counter:
    """A quantity over time.

    Attributes:
        name: The name, with the unit.
        meaning: A short description.
        devices: Values of the `device` column; empty for counters of the whole process or machine.
        factor: 0 for a gauge, which is recorded as it is read. For a running total, the recorded value is its growth
            per second times this factor.
        shortest_ns: The shortest interval over which the growth of a total is meaningful.
        at_most: The largest possible value, which rounding to ticks may exceed.
    """

    name: str
    meaning: str
    devices: str = ""
    factor: float = 0
    shortest_ns: int = 1_000_000
    at_most: float = math.inf

    def of(self, framework: str) -> Counter:
        """Return the counter for one framework."""
        return replace(self, name=self.name.replace("<framework>", framework))


PROCESS_CPU = Counter(name="process CPU %", meaning="CPU use of this process; 100 is one core", factor=100)
PROCESS_CPU_WAIT = Counter(
    name="process CPU wait %",
    meaning="runnable threads of this process that waited for a core; 100 is one thread all the time",
    factor=100,
)
SYSTEM_CPU = Counter(
    name="system CPU %",
    meaning="CPU use of all processes; 100 is all cores",
    factor=100,
    shortest_ns=5 * _TICK_NS,
    at_most=100,
)
CORE_CPU = replace(SYSTEM_CPU, name="core CPU %", meaning="use of one core", devices="`cpu:0`, `cpu:1`...")
SYSTEM_STEAL = replace(
    SYSTEM_CPU,
    name="system CPU steal %",
    meaning="time of all cores that the hypervisor gave to other virtual machines; included in `system CPU %`",
)
PROCESS_MEMORY = Counter(name="process memory bytes", meaning="resident memory of this process")
SYSTEM_MEMORY_USED = Counter(name="system memory used bytes", meaning="memory of the machine in use")
SYSTEM_MEMORY_AVAILABLE = Counter(
    name="system memory available bytes", meaning="memory of the machine that is available without swapping"
)
FRAMEWORK_MEMORY = Counter(
    name="<framework> memory bytes",
    meaning="memory allocated and not yet freed by the allocator of `torch`, `tensorflow` or `mindspore`",
    devices="`cuda:0`, `npu:0`...",
)
PROCESS_DISK_READ = Counter(
    name="process disk read bytes/s",
    meaning="bytes that this process read from disks, without the page cache",
    factor=1,
)
PROCESS_DISK_WRITE = Counter(
    name="process disk write bytes/s", meaning="bytes that this process caused to be written to disks", factor=1
)
SYSTEM_DISK_READ = Counter(name="system disk read bytes/s", meaning="bytes that all processes read from disk", factor=1)
SYSTEM_DISK_WRITE = Counter(
    name="system disk write bytes/s", meaning="bytes that all processes caused to be written to disks", factor=1
)
NETWORK_RECEIVE = Counter(name="system network receive bytes/s", meaning="bytes received, without loopback", factor=1)
NETWORK_SEND = Counter(name="system network send bytes/s", meaning="bytes sent, without loopback", factor=1)
GPU_UTILIZATION = Counter(
    name="GPU utilization %",
    meaning="share of time in which a kernel of any process ran on the GPU, as reported by NVML",
    devices="`cuda:0`, `cuda:1`...",
)
GPU_MEMORY = replace(GPU_UTILIZATION, name="GPU memory used bytes", meaning="memory of the GPU in use by all processes")

COUNTERS = tuple(value for value in list(globals().values()) if isinstance(value, Counter))
"""All counters above, in order."""
