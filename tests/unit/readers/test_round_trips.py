from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unified_profiler.export import write
from unified_profiler.model.nesting import nest
from unified_profiler.model.records import Failure, StepSignal, TraceInfo
from unified_profiler.model.run import Run
from unified_profiler.model.schema import EVENT_SCHEMA, Kind, Layer, empty_table, event_table
from unified_profiler.model.text import storable
from unified_profiler.model.trace import Trace
from unified_profiler.readers import read

SUFFIXES = [".json", ".json.gz", ".parquet"]
BASE = 1_790_857_026_123_456_789
HOSTILE = ['"', "\\", "\n\r\t", "\0\x07\x7f", "\U0001f525", "\u2028", storable("\ud800"), "", ",", "</script>", "NaN"]

anything = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=8).map(storable)
int64 = st.integers(-(2**63), 2**63 - 1)
json_text = st.one_of(
    anything,
    st.recursive(
        st.none() | st.booleans() | int64 | st.floats() | anything,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
        max_leaves=5,
    ).map(lambda value: json.dumps(value, ensure_ascii=False)),
)


def rows() -> st.SearchStrategy[dict[str, Any]]:
    """Any event there can be."""
    json_columns = {"input_shapes", "input_types", "output_shapes", "output_types", "attributes"}
    small = {"step": 2**31, "cycle": 2**31, "rank": 2**31, "pid": 3, "tid": 3, "stream": 3}
    columns: dict[str, st.SearchStrategy[Any]] = {}
    for field in EVENT_SCHEMA:
        if pa.types.is_dictionary(field.type):
            values: st.SearchStrategy[Any] = json_text if field.name in json_columns else anything
        elif pa.types.is_floating(field.type):
            values = st.floats()
        else:
            values = st.integers(-1, small[field.name] - 1) if field.name in small else int64
        columns[field.name] = st.none() | values if field.nullable else values
    fixed = {
        "id": st.just(0),
        "self_ns": st.just(0),
        "depth": st.just(0),
        "layer": st.sampled_from([layer.value for layer in Layer]),
        "kind": st.sampled_from([kind.value for kind in Kind]),
        "start_ns": st.integers(BASE, BASE + 10**12),
        "duration_ns": st.integers(0, 10**9),
    }
    return st.fixed_dictionaries(columns | fixed)


def trace_of(found: list[dict[str, Any]], **info: Any) -> Trace:
    columns = {name: pa.array([row[name] for row in found], plain_type(name)) for name in EVENT_SCHEMA.names}
    return Trace(nest(event_table(columns, rows=len(found))), TraceInfo(event_count=len(found), **info))


def plain_type(name: str) -> Any:
    kind = EVENT_SCHEMA.field(name).type
    return pa.string() if pa.types.is_dictionary(kind) else kind


def columns_of(trace: Trace) -> dict[str, list[Any]]:
    """Return all values, with NaN made comparable."""
    columns: dict[str, list[Any]] = trace.events.to_pydict()
    columns["value"] = [repr(value) for value in columns["value"]]
    return columns


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(found=st.lists(rows(), max_size=6))
def test_reading_gives_back_every_column(suffix: str, found: list[dict[str, Any]], tmp_path: Path) -> None:
    trace = trace_of(found)
    back = read(write(trace, tmp_path / f"t{suffix}")).traces[0]
    assert columns_of(back) == columns_of(trace)
    assert back.events.schema == EVENT_SCHEMA


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_hostile_names_survive(suffix: str, tmp_path: Path) -> None:
    columns = dict.fromkeys(("name", "thread", "stack", "module", "op", "attributes", "host"), HOSTILE)
    numbers = {"layer": "framework", "kind": "op", "start_ns": BASE, "duration_ns": 1}
    table = nest(event_table(columns | numbers, rows=len(HOSTILE)))
    trace = Trace(table, TraceInfo(event_count=len(HOSTILE)))
    assert columns_of(read(write(trace, tmp_path / f"t{suffix}")).traces[0]) == columns_of(trace)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_info_survives(suffix: str, tmp_path: Path) -> None:
    info = TraceInfo(
        run="r",
        cycle=3,
        rank=1,
        world_size=2,
        frameworks={"torch": "2.13.0"},
        complete=False,
        step_signal=StepSignal(name="optimizer"),
        hints=("call step()",),
        native={"torch": {"deviceProperties": [{"name": string.printable}]}},
    )
    assert read(write(Trace(empty_table(), info), tmp_path / f"t{suffix}")).traces[0].info == info


def test_fields_of_info_that_a_newer_version_added_survive(tmp_path: Path) -> None:
    info = TraceInfo.model_validate({"novelty": Failure(source="a", action="b", error="c").model_dump()})
    assert read(write(Trace(empty_table(), info), tmp_path / "t.json")).traces[0].info == info


def test_a_run_of_several_traces_survives_in_json(tmp_path: Path, trace: Trace) -> None:
    other = Trace(trace.events.slice(1), TraceInfo(event_count=1, rank=1, cycle=4))
    run = read(write(Run(traces=(trace, other)), tmp_path / "t.json"))
    assert [columns_of(found) for found in run.traces] == [columns_of(trace), columns_of(other)]
    assert [found.info for found in run.traces] == [trace.info, other.info]


def test_json_that_another_program_reformatted_is_still_ours(tmp_path: Path, trace: Trace) -> None:
    path = write(trace, tmp_path / "t.json")
    path.write_text(json.dumps(json.loads(path.read_text()), indent=4))
    assert columns_of(read(path).traces[0]) == columns_of(trace)
