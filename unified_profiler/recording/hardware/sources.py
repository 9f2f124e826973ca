"""Lists the hardware sources: this process, the machine, the allocators of frameworks, GPUs.

Linux is read through the files of /proc, other systems through psutil.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from unified_profiler.recording.hardware.counters import FRAMEWORK_MEMORY, PROCESS_CPU
from unified_profiler.recording.hardware.gpus import Gpus, is_nvml_installed
from unified_profiler.recording.hardware.readings import Reading, Source
from unified_profiler.spi import Backend, is_imported


def machine_sources() -> list[Source]:
    """Return the sources that do not depend on a framework."""
    gpus = [Source("the GPUs", Gpus().read)] if is_nvml_installed() else []
    return [Source("the CPU time of the process", _process_cpu), *_system_sources(), *gpus]


def allocator_source(backend: Backend) -> Source | None:
    """Return the source for the allocators of a framework; None if it reports nothing or is not imported."""
    allocated_bytes = backend.abilities.allocated_bytes
    if allocated_bytes is None or not is_imported(backend.module):
        return None
    counter = FRAMEWORK_MEMORY.of(backend.name)

    def read() -> Iterator[Reading]:
        if is_imported(backend.module):  # an import that fails is taken back
            for device, amount in allocated_bytes().items():
                yield Reading(counter, amount, device)

    return Source(f"the memory of {backend.name}", read)


def _process_cpu() -> Iterator[Reading]:
    """Read the CPU clock of the process, which is exact and cheap, while the system counts ticks."""
    yield Reading(PROCESS_CPU, time.process_time())


def _system_sources() -> list[Source]:
    if sys.platform == "linux":
        from unified_profiler.recording.hardware.proc import proc_sources
        from unified_profiler.recording.hardware.waiting import waiting_sources

        return [*waiting_sources(), *proc_sources()]
    from unified_profiler.recording.hardware.psutil_readings import psutil_sources

    return psutil_sources()
