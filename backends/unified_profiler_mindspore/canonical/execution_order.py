"""Directions that the names of kernels do not tell, but when they ran does: between which borders, or in which order.

Two sorts of kernels of a graph carry no scope: pieces of operators that were taken apart (`Expand/`), and, where it was
made of a function, everything outside the gradients. A graph runs the same kernels in the same order each time,
gradients partly among the forward ones.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from unified_profiler.model.nesting import Ints
from unified_profiler.spi.canonical import BACKWARD, FORWARD
from unified_profiler_mindspore.canonical.assignment import Lookup
from unified_profiler_mindspore.canonical.kernel_names import Node
from unified_profiler_mindspore.read.note import Span

_STATE = re.compile(r"^Assign")
"""Kernels that write a parameter: outside of any scope these may be the model's or the optimizer's."""

Directions = list[str | None]


def directions(
    launched: Sequence[int], nodes: Sequence[Node], table: Lookup, *, told: Sequence[Span | None] | None = None
) -> Directions:
    """Return the direction of each launch, None where it is not known.

    Args:
        launched: Numbers of the nodes, in the order in which they ran.
        nodes: What their names say.
        table: What types mean.
        told: In which computation of gradients or update of parameters by the program each launch ran, None for those
            that ran in none; None if nothing of that is known.
    """
    by_name = [table.direction(node) for node in nodes]
    bare = any(not node.top for node in nodes)  # PyNative, where a path says no more than a bare name
    if bare and told is None:
        by_name = [found or table.direction_by_type(node) for found, node in zip(by_name, nodes, strict=True)]
        return [by_name[number] for number in launched]
    if bare:
        graphs = any(node.in_graph and node.top == "Gradients" for node in nodes)
        by_name = [found or _of_eager(node, graphs=graphs) for found, node in zip(by_name, nodes, strict=True)]
        found = [by_name[number] for number in launched]
    else:
        inserted = any(node.in_graph for node in nodes) and BACKWARD in by_name
        by_name = [
            found or _of_graph(node, table, inserted=inserted) for found, node in zip(by_name, nodes, strict=True)
        ]
        found = [direction for run in _runs(launched) for direction in _of_run(run, by_name, nodes)]
    if told is None:
        return found
    return [span.direction if span else direction for span, direction in zip(told, found, strict=True)]


def in_spans(start_ns: Ints, spans: Sequence[Span]) -> list[Span | None]:
    """Return the innermost span that each launch began in."""
    found: list[Span | None] = [None] * len(start_ns)
    for span in sorted(spans, key=lambda span: (span.start_ns, -span.stop_ns)):
        first, last = np.searchsorted(start_ns, [span.start_ns, span.stop_ns])
        found[first:last] = [span] * int(last - first)
    return found


def _of_eager(node: Node, *, graphs: bool) -> str | None:
    """Return the direction outside of gradients and updates; pieces of graphs and writes in them may be either."""
    if node.in_graph:
        return _of_unscoped(node)
    return None if graphs and node.expanded_from else FORWARD


def _of_graph(node: Node, table: Lookup, *, inserted: bool) -> str | None:
    """Return the direction of a kernel in a graph; of one that is not in the known graph it may be any.

    Such are copies that MindSpore inserts when it has built the graph.
    """
    if node.in_graph:
        return _of_unscoped(node)
    return table.direction_by_type(node) or (None if inserted else _of_unscoped(node))


def _of_unscoped(node: Node) -> str | None:
    return FORWARD if node.is_unscoped and not _STATE.search(node.type) else None


def _runs(launched: Sequence[int]) -> Iterator[list[int]]:
    """Split launches into runs of a graph: one ends where a kernel comes again."""
    run: list[int] = []
    seen: set[int] = set()
    for number in launched:
        if number in seen:
            yield run
            run, seen = [], set()
        run.append(number)
        seen.add(number)
    if run:
        yield run


def _of_run(run: Sequence[int], of_names: Directions, of_nodes: Sequence[Node]) -> Directions:
    """Find the directions of pieces whose place is not known: all after the last forward kernel are gradients.

    So are those that bear a higher number than one of these, since pieces are numbered as the graph is built, forward
    first. Of the others those beside gradients may be either, unless one with a higher number is forward.
    """
    by_name, nodes = [of_names[number] for number in run], [of_nodes[number] for number in run]
    pieces = [place for place, node in enumerate(nodes) if node.expanded_from and by_name[place] is None]
    if BACKWARD not in by_name:
        return _with(by_name, dict.fromkeys(pieces, FORWARD))
    last_forward = max((place for place, found in enumerate(by_name) if found == FORWARD), default=-1)
    first_gradient = _extreme([place for place in pieces if place > last_forward], nodes, min)
    amid = _amid_forward(by_name)
    last_number = _extreme([place for place in pieces if amid[place]], nodes, max)
    found: dict[int, str | None] = {}
    for place in pieces:
        key, number = _kind(nodes[place]), nodes[place].number
        if key in first_gradient and number >= first_gradient[key]:
            found[place] = BACKWARD
        else:
            found[place] = FORWARD if number <= last_number.get(key, -1) else None
    return _with(by_name, found)


def _kind(node: Node) -> tuple[str | None, str]:
    return node.expanded_from, node.type


def _extreme(
    places: Sequence[int], nodes: Sequence[Node], choose: Callable[[Sequence[int]], int]
) -> dict[tuple[str | None, str], int]:
    """Return the highest or lowest number of the pieces of each kind."""
    numbers: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for place in places:
        numbers[_kind(nodes[place])].append(nodes[place].number)
    return {kind: choose(some) for kind, some in numbers.items()}


def _amid_forward(by_name: Directions) -> list[bool]:
    """Say of each launch whether the nearest ones before and after it of which it is known are forward."""
    before, after = _nearest(by_name), _nearest(by_name[::-1])[::-1]
    return [earlier in (FORWARD, None) and later == FORWARD for earlier, later in zip(before, after, strict=True)]


def _nearest(by_name: Directions) -> Directions:
    """Return the last known direction before each launch."""
    found: Directions = []
    last = None
    for direction in by_name:
        found.append(last)
        last = direction or last
    return found


def _with(by_name: Directions, found: dict[int, str | None] | dict[int, str]) -> Directions:
    return [found.get(place) if place in found else direction for place, direction in enumerate(by_name)]
