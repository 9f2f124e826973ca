"""canonical/ops.toml of every backend: operators are those of ONNX or known others, and no name stands for two."""

from __future__ import annotations

from collections import Counter

import onnx.defs
import pytest

from unified_profiler.spi.canonical import CanonicalTables, OperatorNames, load_canonical

PSEUDO_OPERATORS = {
    *("x:Optimizer", "x:AllReduce", "x:AllGather", "x:ReduceScatter", "x:Broadcast", "x:AllToAll", "x:DataLoad"),
    *("x:Alloc", "x:Dispatch", "x:NoOp", "x:AccumulateGrad", "x:Loss", "x:Compiled", "x:ZeroGrad"),
    *("x:ReadVariable", "x:Arg", "x:Metric"),
}


@pytest.fixture(params=["torch", "tensorflow", "mindspore"])
def tables(request: pytest.FixtureRequest) -> CanonicalTables:
    return load_canonical(f"unified_profiler_{request.param}")


def sections(tables: CanonicalTables) -> dict[str, OperatorNames]:
    names = ("kernel", "function", "layer", "optimizer")
    return {**{name: getattr(tables, name) for name in names}, **tables.more}


def test_every_operator_is_one_of_onnx_or_a_known_pseudo_operator(tables: CanonicalTables) -> None:
    operators = {name for section in sections(tables).values() for name in section.by_operator}
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history()} | PSEUDO_OPERATORS
    assert operators - known == set()


def test_no_name_stands_for_two_operators(tables: CanonicalTables) -> None:
    for title, section in sections(tables).items():
        counts = Counter(name for names in section.by_operator.values() for name in names)
        assert [name for name, count in counts.items() if count > 1] == [], title


def test_every_backend_names_kernels_and_optimizers(tables: CanonicalTables) -> None:
    assert tables.kernel.operators
    assert {"Adam", "x:Optimizer"} <= set(tables.optimizer.by_operator)
