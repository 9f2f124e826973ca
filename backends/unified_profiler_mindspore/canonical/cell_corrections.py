"""Cells of kernels that are in the wrong one.

MindSpore compiles what `+` means once and uses it wherever tensors are added: all these additions are in the Cell that
came first. One that has to do with nothing in its layer is in the smallest Cell that holds all it has to do with.
"""

from __future__ import annotations

import dataclasses
from itertools import takewhile

from unified_profiler_mindspore.canonical.assignment import Lookup
from unified_profiler_mindspore.canonical.kernel_names import Cell, Node
from unified_profiler_mindspore.read.graph_ir import Graph, Operator

_SHARED = frozenset({"Add", "AddExt", "Sub", "SubExt", "Mul", "Muls", "Div", "Divs", "Neg"})
"""What Python's signs mean; no layer is made of one of these alone."""


def corrected(node: Node, graph: Graph, operator: Operator, table: Lookup) -> Node:
    """Return a node with the Cells that it is in for certain."""
    known = any(cell.kind in table.layers or cell.kind in table.optimizer for cell in node.cells)
    if node.top != "Default" or operator.type not in _SHARED or not known:
        return node
    around = _around(graph, operator)
    if not around or any(cells[: len(node.cells)] == node.cells for cells in around):
        return node
    shared = tuple(cells[0] for cells in takewhile(lambda same: len(set(same)) == 1, zip(*around, strict=False)))
    return dataclasses.replace(node, cells=shared)


def _around(graph: Graph, operator: Operator) -> list[tuple[Cell, ...]]:
    """Return the Cells of the forward operators that an operator takes from or gives to."""
    keys = {*graph.sources(operator), *graph.users(operator.key)} & graph.by_key.keys()
    nodes = [graph.by_key[key].node for key in keys]
    return [node.cells for node in nodes if node.top == "Default"]
