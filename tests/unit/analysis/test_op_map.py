from __future__ import annotations

from pathlib import Path

import pytest

import unified_profiler as up
from unified_profiler.errors import ConfigurationError
from unified_profiler.model.run import Run
from unified_profiler.testing.builders import TraceBuilder


@pytest.fixture
def trace() -> up.Trace:
    builder = TraceBuilder().op("mylib::attention", 0, 100).op("aten::mm", 10, 50, op="MatMul", origin="Gemm")
    return (
        builder.op("aten::mm", 200, 50, op="MatMul", origin="Gemm", direction="forward")
        .op("mylib::norm", 300, 9)
        .build()
    )


def write(folder: Path, text: str) -> Path:
    path = folder / "map.toml"
    path.write_text(text, encoding="utf-8")
    return path


def columns(trace: up.Trace, *names: str) -> list[tuple[object, ...]]:
    return list(zip(*(trace.events.column(name).to_pylist() for name in names), strict=True))


def test_it_overrides_what_an_event_is(trace: up.Trace, tmp_path: Path) -> None:
    mapped = up.with_op_map(trace, write(tmp_path, '[op]\n"aten::mm" = "Gemm"\n"mylib::*" = "x:Mine"\n'))
    assert columns(mapped, "name", "op") == [
        ("mylib::attention", "x:Mine"),
        ("aten::mm", "Gemm"),
        ("aten::mm", "Gemm"),
        ("mylib::norm", "x:Mine"),
    ]


def test_an_origin_holds_for_everything_inside(trace: up.Trace, tmp_path: Path) -> None:
    mapped = up.with_op_map(trace, write(tmp_path, '[origin]\n"mylib::attention" = "Attention"\n'))
    assert columns(mapped, "origin") == [("Attention",), ("Attention",), ("Gemm",), (None,)]


def test_so_does_a_direction(trace: up.Trace, tmp_path: Path) -> None:
    mapped = up.with_op_map(trace, write(tmp_path, '[direction]\n"mylib::attention" = "backward"\n'))
    assert columns(mapped, "direction") == [("backward",), ("backward",), ("forward",), (None,)]


def test_an_exact_name_beats_a_pattern(trace: up.Trace, tmp_path: Path) -> None:
    mapped = up.with_op_map(trace, write(tmp_path, '[op]\n"mylib::*" = "x:Mine"\n"mylib::norm" = "LRN"\n'))
    assert columns(mapped, "op")[3] == ("LRN",)


def test_the_events_of_a_run_keep_the_schema_and_the_rest(trace: up.Trace, tmp_path: Path) -> None:
    path = write(tmp_path, '[op]\n"aten::mm" = "Gemm"\n')
    (mapped,) = up.with_op_map(Run(traces=(trace,)), path).traces
    assert mapped.events.schema == trace.events.schema
    assert mapped.events.drop_columns(["op"]).equals(trace.events.drop_columns(["op"]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[op\n", "cannot be read"),
        ('[ops]\n"a" = "Gemm"\n', "'ops', which is not one of its sections"),
        ("op = 3\n", "'op', which is not one of its sections"),
        ('[op]\n"a" = 3\n', "gives 3 for 'a'"),
        ('[op]\n"a" = ""\n', "gives '' for 'a'"),
        ('[direction]\n"a" = "sideways"\n', "expected one of forward, backward, update"),
    ],
)
def test_a_broken_map_is_refused(trace: up.Trace, tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        up.with_op_map(trace, write(tmp_path, text))


def test_a_map_that_is_not_there_is_refused(trace: up.Trace, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        up.with_op_map(trace, tmp_path / "none.toml")
