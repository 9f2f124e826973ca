"""Two ranks with NCCL: a recorded one, and a second made of it on a machine whose clock is ahead and runs fast.

On the second rank each collective begins later and ends at the same moment: the first one waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import unified_profiler as up
from unified_profiler.analysis import align_clocks

GOLDEN = Path(__file__).parents[1] / "golden" / "kineto" / "nccl_rank.json.gz"
OFFSET_NS, DRIFT, LATE_NS = 7_000_000_000, 40e-6, 300_000


@dataclass(frozen=True)
class Pair:
    run: up.Run
    synchronizing: np.ndarray[Any, Any]
    """Rows of the kernels that synchronize the ranks."""


@pytest.fixture(scope="module")
def pair() -> Pair:
    (recorded,) = up.read(GOLDEN).traces
    events = recorded.events
    rows = events.select(["name", "device"]).to_pylist()
    synchronizing = np.array([is_all_reduce(row["name"], row["device"] or "") for row in rows])
    first = up.Trace(events, recorded.info.model_copy(update={"host": "first"}))
    second = up.Trace(_second(events, synchronizing), recorded.info.model_copy(update={"rank": 1, "host": "second"}))
    return Pair(up.Run(traces=(first, second)), synchronizing)


def is_all_reduce(name: str, device: str) -> bool:
    return device.startswith("cuda") and "nccl" in name and "AllReduce" in name


def _second(events: pa.Table, synchronizing: np.ndarray[Any, Any]) -> pa.Table:
    start = events.column("start_ns").to_numpy()
    end = start + events.column("duration_ns").to_numpy()
    late = np.where(synchronizing, np.minimum(LATE_NS, (end - start) // 2), 0)
    moved = [reading(start + late, start.min()), reading(end, start.min())]
    changed = {"start_ns": moved[0], "duration_ns": moved[1] - moved[0], "rank": np.full(len(start), 1)}
    for name, values in changed.items():
        place = events.schema.get_field_index(name)
        events = events.set_column(place, events.schema.field(name), pa.array(values, events.schema.field(name).type))
    return events


def reading(true_ns: Any, since_ns: int) -> Any:
    return true_ns + OFFSET_NS + np.round(DRIFT * (true_ns - since_ns)).astype(np.int64)


def test_collectives_on_the_device_tell_the_clocks(pair: Pair) -> None:
    clocks = up.rank_table(pair.run).clocks
    assert clocks is not None
    assert (clocks.method, clocks.compared_count) == ("collectives", pair.synchronizing.sum())
    first, second = clocks.ranks
    assert not first.is_off
    assert second.drift == pytest.approx(DRIFT, rel=1e-3)


def test_corrected_times_are_the_recorded_ones(pair: Pair) -> None:
    first, second = (trace.events.column("start_ns").to_numpy() for trace in align_clocks(pair.run).traces)
    assert np.abs(second - first)[~pair.synchronizing].max() < 1_000


def test_the_first_rank_waits_while_its_device_has_nothing_else_to_do(pair: Pair) -> None:
    rows = up.rank_table(pair.run).table.to_pylist()
    waited = {(row["rank"], row["step"]): row["waiting_ns"] for row in rows}
    expected = expected_waiting(pair)
    assert sum(expected.values()) > LATE_NS
    for step, spent in expected.items():
        assert waited[0, step] == pytest.approx(spent, abs=20_000)
        assert waited[1, step] == pytest.approx(0, abs=20_000)


def expected_waiting(pair: Pair) -> dict[int, int]:
    """Return the time, in microseconds, during which a collective was waited for and no kernel or copy ran."""
    rows = pair.run.traces[0].events.select(["kind", "step", "start_ns", "duration_ns"]).to_pylist()
    base = min(row["start_ns"] for row in rows)
    waits, busy = np.zeros((2, 1_000_000), bool)
    for row, synchronizes in zip(rows, pair.synchronizing.tolist(), strict=True):
        start, end = (round((row["start_ns"] + more - base) / 1000) for more in (0, row["duration_ns"]))
        if synchronizes:
            waits[start : start + min(LATE_NS // 1000, (end - start) // 2)] = True
        elif row["kind"] in {"kernel", "copy"}:
            busy[start:end] = True
    steps = {row["step"]: row for row in rows if row["kind"] == "step"}
    idle = waits & ~busy
    spans = {
        n: [(row["start_ns"] + more - base) // 1000 for more in (0, row["duration_ns"])] for n, row in steps.items()
    }
    return {number: int(idle[start:end].sum()) * 1000 for number, (start, end) in spans.items()}
