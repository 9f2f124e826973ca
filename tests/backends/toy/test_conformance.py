"""The backend of examples/toy_backend passes the suite that every backend passes."""

from __future__ import annotations

from typing import ClassVar

import unified_profiler_toy
from unified_profiler.spi import Capability
from unified_profiler.testing import BackendConformance, never, notimpl


class TestToy(BackendConformance):
    backend = unified_profiler_toy.backend
    module = "unified_profiler_toy"
    divergences: ClassVar = {
        Capability.MEMORY: never("toy_framework records no allocations"),
        Capability.STACKS: never("toy_framework records no stacks"),
        Capability.FLOPS: notimpl("they would follow from the shapes"),
        Capability.DEVICE_EVENTS: never("toy_framework runs on the processor"),
    }

    def work(self) -> float:
        from train_toy import Training

        return Training().step()
