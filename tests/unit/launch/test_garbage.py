from __future__ import annotations

import gc
import weakref

import pytest

from unified_profiler.launch.garbage import no_collections, older_objects_spared


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_older_garbage_stays_meanwhile_and_is_collected_afterwards() -> None:
    older = weakref.ref(Cycle())
    with older_objects_spared():
        newer = weakref.ref(Cycle())
        gc.collect()
        assert older() is not None
        assert newer() is None
    gc.collect()
    assert older() is None


def test_the_collector_is_on_again_after_an_error() -> None:
    def fail() -> None:
        with older_objects_spared(), no_collections():
            assert not gc.isenabled()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled()
    assert not gc.get_freeze_count()
