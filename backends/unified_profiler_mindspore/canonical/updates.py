"""Operators of a graph that only update parameters, although their path does not say so.

In a graph that `ms.jit` made of a function nothing is in the Cell of an optimizer. It is known by its own kernels; the
rest is what only they use, and what writes parameters or values that they read.
"""

from __future__ import annotations

from unified_profiler.spi.canonical import UPDATE
from unified_profiler_mindspore.canonical.assignment import Lookup
from unified_profiler_mindspore.read.graph_ir import Graph


def unscoped_updates(graph: Graph, table: Lookup) -> set[str]:
    """Return the operators outside of any Cell that only update parameters, by their keys."""
    known = {one.key for one in graph.operators if table.direction(one.node) == UPDATE}
    read = {key for one in graph.operators if one.key in known for key in graph.sources(one)}
    loose = [one for one in graph.operators if one.key not in known and one.node.is_unscoped]
    found = {one.key for one in loose if one.type.startswith("Assign") and graph.sources(one) & read}
    for one in reversed(loose):
        users = graph.users(one.key)
        if users and users <= known | found:
            found.add(one.key)
    return found
