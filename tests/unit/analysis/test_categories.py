from __future__ import annotations

import onnx
import pytest

from unified_profiler.analysis import op_table
from unified_profiler.analysis.categories import categories, operators_by_category, with_categories
from unified_profiler.testing import TraceBuilder


def test_no_operator_has_two_categories() -> None:
    operators = [op for names in operators_by_category().values() for op in names]
    assert len(operators) == len(set(operators))


def test_operators_are_those_of_onnx_or_marked_as_others() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}
    operators = [op for names in operators_by_category().values() for op in names if not op.startswith("x:")]
    assert set(operators) <= known


@pytest.mark.parametrize(
    ("columns", "category"),
    [
        ({"op": "Conv"}, "convolution"),
        ({"op": "Conv", "direction": "backward"}, "convolution"),
        ({"op": "Mul", "direction": "update"}, "optimizer"),
        ({"op": "Identity", "kind": "copy"}, "copy"),
        ({"kind": "collective"}, "collective"),
        ({"op": "x:Unheard", "origin": "LSTM"}, "recurrent"),
        ({"origin": "LayerNormalization"}, "normalization"),
        ({"op": "x:Alloc"}, "bookkeeping"),
        ({"op": "x:Alloc", "origin": "Gemm"}, "bookkeeping"),
        ({"op": "x:NoOp", "direction": "update"}, "bookkeeping"),
        ({"op": "Identity", "origin": "x:Alloc"}, "layout"),
        ({}, "other"),
    ],
)
def test_kind_comes_before_direction_before_operator_before_origin(columns: dict[str, str], category: str) -> None:
    events = TraceBuilder().op("a", 0, 10, **columns).build().events
    assert with_categories(events).column("category").to_pylist() == [category]


def test_a_table_by_category_has_all_of_the_self_time() -> None:
    trace = TraceBuilder().op("conv", 0, 100, op="Conv").op("add", 10, 20, op="Add").op("what", 200, 5).build()
    table = op_table(trace, by="category")
    assert {row.category: row.self_cpu_ns for row in table} == {"convolution": 80, "elementwise": 20, "other": 5}


def test_other_comes_last() -> None:
    assert categories()[-1] == "other"
