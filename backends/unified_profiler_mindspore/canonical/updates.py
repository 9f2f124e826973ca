"""Finds graph operators that only update parameters although their path does not show it.

In a graph that `ms.jit` made of a function no operator is in the Cell of an optimizer. The optimizer's own kernels are
recognized by type; the others are operators used only by these, and operators that write values they read.
"""

from __future__ import annotations

from unified_profiler.spi.canonical import UPDATE
from unified_profiler_mindspore.canonical.assignment import Lookup
from unified_profiler_mindspore.read.graph_ir import Graph


def unscoped_updates(graph: Graph, table: Lookup) -> set[str]:
    """Return the keys of operators outside of any Cell that only update parameters."""
    updates = [operator for operator in graph.operators if table.direction(operator.node) == UPDATE]
    keys = {operator.key for operator in updates}
    read = {key for operator in updates for key in graph.sources(operator)}
    unscoped = [operator for operator in graph.operators if operator.key not in keys and operator.node.is_unscoped]
    indirect = {each.key for each in unscoped if each.type.startswith("Assign") and graph.sources(each) & read}
    for operator in reversed(unscoped):
        users = graph.users(operator.key)
        if users and users <= keys | indirect:
            indirect.add(operator.key)
    return indirect
