"""Corrects kernels that MindSpore assigns to the wrong Cell.

MindSpore compiles Python operators such as `+` once and reuses the result, so that all additions carry the Cell of the
first one. An addition that exchanges no values with its Cell is moved to the smallest Cell that contains all operators
it exchanges values with.
"""

from __future__ import annotations

import dataclasses
from itertools import takewhile

from unified_profiler_mindspore.canonical.assignment import Lookup
from unified_profiler_mindspore.canonical.kernel_names import Cell, Node
from unified_profiler_mindspore.read.graph_ir import Graph, Operator

_PYTHON_OPERATORS = frozenset({"Add", "AddExt", "Sub", "SubExt", "Mul", "Muls", "Div", "Divs", "Neg"})
"""Primitives of Python's operators; no layer consists of one of these alone."""


def correct_cells(operator: Operator, graph: Graph, table: Lookup) -> Node:
    """Return the node of an operator with the Cells that it is certain to be in."""
    node = operator.node
    in_known_cell = any(cell.kind in table.layers or cell.kind in table.optimizer for cell in node.cells)
    if node.top != "Default" or operator.type not in _PYTHON_OPERATORS or not in_known_cell:
        return node
    adjacent = _adjacent_cells(graph, operator)
    if not adjacent or any(cells[: len(node.cells)] == node.cells for cells in adjacent):
        return node
    shared = tuple(cells[0] for cells in takewhile(lambda same: len(set(same)) == 1, zip(*adjacent, strict=False)))
    return dataclasses.replace(node, cells=shared)


def _adjacent_cells(graph: Graph, operator: Operator) -> list[tuple[Cell, ...]]:
    """Return the Cells of the forward operators that produce the inputs or use the result of an operator."""
    keys = {*graph.sources(operator), *graph.users(operator.key)} & graph.by_key.keys()
    nodes = [graph.by_key[key].node for key in keys]
    return [node.cells for node in nodes if node.top == "Default"]
