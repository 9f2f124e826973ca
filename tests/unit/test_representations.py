"""What objects look like in a REPL, in a notebook, and to completion."""

from __future__ import annotations

import pytest

import unified_profiler as up
from unified_profiler.testing import FakeBackend
from unified_profiler.testing.builders import TraceBuilder

FORMS = ("_repr_html_", "_repr_markdown_")


@pytest.fixture
def trace() -> up.Trace:
    builder = TraceBuilder(frameworks={"torch": "2"}, first_step=0, last_step=29)
    for step in range(30):
        builder.step(step, step * 1000, 1000).op("aten::mm", step * 1000, 500, framework="torch")
    return builder.build()


def test_results_are_shown_as_readable_text_of_some_lines(trace: up.Trace) -> None:
    results = (
        up.summarize(trace),
        up.diff(trace, trace),
        up.gate(trace, trace),
        up.op_table(trace),
        up.critical_path(trace),
    )
    for result in results:
        assert repr(result) == str(result)
        assert 1 < repr(result).count("\n") < 80
        assert len(repr(result)) < 8000
    assert "aten::mm" in repr(results[0])
    assert up.summarize(trace)._repr_markdown_() == str(up.summarize(trace))
    assert "| step |" in up.gate(trace, trace)._repr_markdown_()


def test_large_runs_are_shown_as_briefly() -> None:
    builder = TraceBuilder(frameworks={"torch": "2"}, first_step=0, last_step=2)
    for step in range(3):
        builder.step(step, step * 1_000_000, 1_000_000)
        for number in range(1000):
            builder.op(f"aten::{number}" + "x" * 100, step * 1_000_000 + number * 1000, 500, framework="torch")
    large = builder.build()
    shown = (
        *(up.summarize(large), up.diff(large, large), up.gate(large, large), up.critical_path(large)),
        *(up.op_table(large), up.query(large, "select name, start_ns, duration_ns from events")),
        *(large, up.Run(traces=[large] * 1000)),
    )
    for each in shown:
        texts = [repr(each), *(getattr(each, form)() for form in FORMS if hasattr(each, form))]
        assert max(map(len, texts)) < 70_000, type(each)
        assert len(texts[0]) < 25_000, type(each)


def test_a_profiler_is_shown_as_a_line() -> None:
    backend = FakeBackend()
    with up.Profiler(backend=backend, clock=backend.clock) as prof:
        prof.step()
        assert repr(prof) == "<Profiler, running: 1 step, 0 traces>"
    assert repr(prof) == "<Profiler, not running: 1 step, 1 trace>"
    assert repr(up.Profiler(level=0)) == "<Profiler, off: 0 steps, 0 traces>"


def test_completion_lists_fields_and_few_methods(trace: up.Trace) -> None:
    summary = up.summarize(trace)
    names = {name for name in dir(summary) if not name.startswith("_")}
    assert names >= {*type(summary).model_fields, "model_dump", "model_dump_json"}
    assert not names & {"model_copy", "model_validate", "copy", "dict", "json", "parse_obj", "schema"}
