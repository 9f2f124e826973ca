"""Every text column of every backend has an index of its dictionary in every slot, under nulls too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from unified_profiler import registry
from unified_profiler.model.assembly import assemble
from unified_profiler.model.schema import EventTable
from unified_profiler.readers.native import recognized_by
from unified_profiler.spi import NativeCapture

GOLDEN = Path(__file__).parents[1] / "golden"
CAPTURES = [
    *GOLDEN.glob("kineto/*.json.gz"),
    *GOLDEN.glob("xplane/*.xplane.pb"),
    *GOLDEN.glob("run_metadata/*.pb"),
    *GOLDEN.glob("run_metadata/*.json"),
    *GOLDEN.glob("mindspore/*_ms"),
]


def outside(events: EventTable) -> list[str]:
    """The columns with an index outside their dictionary; an empty dictionary has 0 under its nulls."""
    return [
        field.name
        for field in events.schema
        if pa.types.is_dictionary(field.type)
        for chunk in events.column(field.name).chunks
        if len(chunk) and not _sound(chunk)
    ]


def _sound(chunk: pa.DictionaryArray) -> bool:
    raw = np.frombuffer(chunk.indices.buffers()[1], np.int32)[chunk.offset : chunk.offset + len(chunk)]
    return bool(raw.min() >= 0 and raw.max() < max(len(chunk.dictionary), 1))


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_no_index_lies_outside_its_dictionary(path: Path) -> None:
    backend = recognized_by(path)
    assert backend is not None
    events = registry.get(backend.name).normalizer().normalize(NativeCapture(backend=backend.name, files=(path,)))
    assert len(events)
    assert not outside(events)
    assert not outside(assemble([events]))


def test_captures_of_all_backends_are_looked_at() -> None:
    found = [recognized_by(path) for path in CAPTURES]
    assert {backend.name for backend in found if backend} == {entry.name for entry in registry.known()}
