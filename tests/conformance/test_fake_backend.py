"""The conformance suite on the shipped fake: proof that the suite itself runs without a framework."""

from __future__ import annotations

from typing import ClassVar

import pytest

from unified_profiler import registry
from unified_profiler.spi import Backend, Capability
from unified_profiler.testing import BackendConformance, FakeBackend, FakeClock, never


class WallClock(FakeClock):
    def __call__(self) -> int:
        import time

        return time.time_ns()


class TestFakeBackend(BackendConformance):
    module = "unified_profiler.testing"
    fake: ClassVar[FakeBackend] = FakeBackend(
        "fake", module="no_such_framework", capabilities=frozenset(), clock=WallClock()
    )
    backend = fake
    divergences: ClassVar = dict.fromkeys(Capability, never("the fake records names only"))

    @pytest.fixture(autouse=True)
    def _registered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def require(name: str) -> Backend:
            return self.fake

        monkeypatch.setattr(registry, "require", require)

    def work(self) -> int:
        self.fake.op("fake::op")
        return 1
