"""What we export opens in the real Perfetto UI, with every slice and arrow where it belongs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from unified_profiler.export import ChromeExporter, Overlay
from unified_profiler.model.nesting import nest
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.run import Run
from unified_profiler.model.schema import event_table
from unified_profiler.model.trace import Trace
from unified_profiler.readers import read

pytestmark = pytest.mark.browser

GOLDEN = Path(__file__).parents[1] / "golden" / "kineto"
BASE = 1_790_857_026_000_000_000

HOSTILE = [
    'quo"te',
    "back\\slash",
    "line\nbreak\r\ttab",
    "nul\x00 bell\x07 del\x7f",
    "emoji \U0001f525 and \u2028 separator",
    "lone \\ud800 surrogate, spelled out",
    "</script><b>&amp;",
    "%s {0} $x",
    "",
    "NaN",
    "x" * 5000,
]


def hostile_trace() -> Trace:
    rows = len(HOSTILE)
    spans = event_table(
        {
            "name": HOSTILE,
            "layer": "framework",
            "kind": "op",
            "start_ns": [BASE + i for i in range(rows)],
            "duration_ns": [2 * (rows - i) + 1 for i in range(rows)],
            "rank": 0,
            "pid": 0,
            "tid": 1 << 41,
            "thread": HOSTILE,
            "attributes": [json.dumps({name: name}) for name in HOSTILE],
            "stack": HOSTILE,
        },
        rows=rows,
    )
    return _trace(spans)


def _trace(table: pa.Table, **info: Any) -> Trace:
    return Trace(nest(table), TraceInfo(event_count=len(table), **info))


@dataclass(frozen=True)
class Shown:
    """What Perfetto makes of a native trace that we exported."""

    events: pa.Table
    written: Counter[str]
    complaints: dict[str, int]
    info: dict[str, Any]
    slices: int
    arrows: list[list[int]]


@pytest.fixture(scope="module", params=["alexnet_cuda", "cpu_only_rank34", "mi250_train", "nccl_rank"])
def shown(request: pytest.FixtureRequest, perfetto: Any) -> Shown:
    run = read(GOLDEN / f"{request.param}.json.gz")
    file = perfetto.show(run)
    return Shown(
        events=run.traces[0].events,
        written=Counter(event["ph"] for event in json.loads(file.read_bytes())["traceEvents"]),
        complaints=perfetto.complaints,
        info=perfetto.info,
        slices=perfetto.value("select count(*) from slice"),
        arrows=perfetto.query(
            "select extract_arg(a.arg_set_id, 'args.id'), extract_arg(b.arg_set_id, 'args.id') from flow"
            " join slice a on a.id = flow.slice_out join slice b on b.id = flow.slice_in"
        ),
    )


def test_native_trace_exported_by_us_loads_without_complaint(shown: Shown) -> None:
    assert shown.complaints == {}
    assert shown.info == {"type": "json", "errors": 0}


def test_every_event_of_a_native_trace_is_a_slice(shown: Shown) -> None:
    spans = pc.sum(pc.not_equal(shown.events.column("kind"), "counter")).as_py()
    assert shown.slices == spans == shown.written["X"] + shown.written["i"]


def test_every_arrow_of_a_native_trace_is_drawn(shown: Shown) -> None:
    assert len(shown.arrows) == shown.written["s"] == shown.written["f"]


def test_arrows_join_the_events_that_share_an_id(shown: Shown) -> None:
    links = ("correlation_id", "sequence_id")
    keys = list(zip(*(shown.events.column(name).to_pylist() for name in links), strict=True))
    for source, target in shown.arrows:
        assert any(a is not None and a == b for a, b in zip(keys[source], keys[target], strict=True))


def test_hostile_names_arrive(perfetto: Any) -> None:
    perfetto.show(hostile_trace())
    assert perfetto.complaints == {}
    assert perfetto.value("select count(*) from slice") == len(HOSTILE)
    names = [row[0] for row in perfetto.query("select name from slice order by ts")]
    assert names == [as_shown(name) for name in HOSTILE]


def as_shown(name: str) -> str:
    """Perfetto leaves all JSON escapes but that of the quote as they are, and has words for an empty name."""
    return json.dumps(name, ensure_ascii=False)[1:-1].replace('\\"', '"') or "[No name]"


def test_gzip_loads_as_well(perfetto: Any) -> None:
    perfetto.show(hostile_trace(), ".json.gz")
    assert perfetto.info == {"type": "gzip", "errors": 0}
    assert perfetto.value("select count(*) from slice") == len(HOSTILE)


def test_times_are_exact_to_the_nanosecond(perfetto: Any) -> None:
    trace = hostile_trace()
    perfetto.show(trace)
    rows = perfetto.query("select ts - (select min(ts) from slice), dur, depth from slice order by ts")
    starts = [start - BASE for start in trace.events["start_ns"].to_pylist()]
    depths = trace.events["depth"].to_pylist()
    assert rows == [list(row) for row in zip(starts, trace.events["duration_ns"].to_pylist(), depths, strict=True)]


def test_ranks_and_devices_are_processes_with_names(perfetto: Any) -> None:
    def of_rank(rank: int) -> Trace:
        table = event_table(
            {
                "name": ["op", "cudaLaunchKernel", "kernel"],
                "layer": ["framework", "runtime", "runtime"],
                "kind": ["op", "runtime", "kernel"],
                "start_ns": [BASE, BASE + 10, BASE + 500],
                "duration_ns": [400, 50, 300],
                "rank": rank,
                "pid": [77, 77, 0],
                "tid": [77, 77, 7],
                "thread": ["main", "main", "stream 7"],
                "device": [None, None, "cuda:0"],
                "stream": [None, None, 7],
                "correlation_id": [None, 5, 5],
            },
            rows=3,
        )
        return _trace(table, rank=rank)

    perfetto.show(Run(traces=(of_rank(0), of_rank(1))))
    assert perfetto.complaints == {}
    rows = perfetto.query(
        "select process.name, thread.name, count(*) from slice join thread_track t on t.id = slice.track_id"
        " join thread using (utid) join process using (upid) group by 1, 2 order by 1"
    )
    assert rows == [
        ["rank 0: cuda:0", "stream 7", 1],
        ["rank 0: python 77", "main thread", 2],
        ["rank 1: cuda:0", "stream 7", 1],
        ["rank 1: python 77", "main thread", 2],
    ]
    assert perfetto.value("select count(*) from flow") == 2


def test_counters_and_instants_are_drawn(perfetto: Any) -> None:
    table = event_table(
        {
            "name": ["cpu", "cpu", "cpu", "[memory]", "gpu", "gpu"],
            "layer": "hardware",
            "kind": ["counter", "counter", "counter", "memory", "counter", "counter"],
            "start_ns": [BASE + i * 1000 for i in range(6)],
            "duration_ns": 0,
            "rank": 0,
            "pid": 77,
            "tid": 77,
            "value": [0.5, 1.5, float("nan"), None, 3.0, 4.0],
            "device": [None, None, None, None, "cuda:0", "cuda:1"],
        },
        rows=6,
    )
    perfetto.show(_trace(table))
    assert perfetto.complaints == {}
    assert [row[0] for row in perfetto.query("select value from counter order by ts")] == [0.5, 1.5, 3.0, 4.0]
    assert perfetto.value("select count(distinct track_id) from counter") == 3
    assert perfetto.query("select name, dur from slice") == [["[memory]", 0]]


def test_overlapping_events_of_a_joined_table_are_all_shown(perfetto: Any) -> None:
    table = event_table(
        {
            "name": ["a", "b", "c"],
            "layer": "framework",
            "kind": "op",
            "start_ns": [BASE, BASE + 5, BASE + 9],
            "duration_ns": [10, 10, 10],
            "pid": 77,
            "tid": 77,
        },
        rows=3,
    )
    perfetto.show(Trace(table, TraceInfo(event_count=3)))
    assert perfetto.complaints == {}
    assert perfetto.value("select count(*) from slice") == 3


def test_an_overlay_is_drawn_with_its_arrows(perfetto: Any) -> None:
    spans = pa.table(
        {
            "step": [0, 0, 0],
            "start_ns": [BASE, BASE + 10, BASE + 20],
            "end_ns": [BASE + 10, BASE + 20, BASE + 21],
            "lane": ["main", "stream 7", "main"],
            "name": ["first", "second", "third"],
        }
    )
    file = perfetto.folder / "overlay.json"
    ChromeExporter(overlays=[Overlay(spans)]).write([hostile_trace()], file)
    perfetto.load(file)
    assert perfetto.complaints == {}
    rows = perfetto.query(
        "select slice.name, thread.name, ts - (select min(ts) from slice), dur from slice"
        " join thread_track t on t.id = slice.track_id join thread using (utid) join process using (upid)"
        " where process.name = 'critical path' order by ts"
    )
    assert rows == [["first", "main", 0, 10], ["second", "stream 7", 10, 10], ["third", "main", 20, 1]]
    arrows = perfetto.query(
        "select a.name, b.name from flow join slice a on a.id = flow.slice_out join slice b on b.id = flow.slice_in"
        " order by a.ts"
    )
    assert arrows == [["first", "second"], ["second", "third"]]
