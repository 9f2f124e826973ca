"""Directions that the names of a graph's kernels do not tell, but their order does.

Two sorts of kernels carry no scope: pieces of operators that were taken apart (`Expand/`), and, in a graph that was
made of a function, everything outside the gradients. A graph runs the same kernels in the same order each time,
gradients partly among the forward ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from unified_profiler_mindspore.canonical import BACKWARD, FORWARD, Lookup
from unified_profiler_mindspore.nodes import Node

_STATE = re.compile(r"^Assign")
"""Kernels that write a parameter: outside of any scope these may be the model's or the optimizer's."""

Directions = list[str | None]


def directions(launched: Sequence[int], nodes: Sequence[Node], table: Lookup) -> Directions:
    """Return the direction of each launch, None where it is not known.

    Args:
        launched: Numbers of the nodes, in the order in which they ran.
        nodes: What their names say.
        table: What types mean.
    """
    by_name = [table.direction(node) for node in nodes]
    if any(not node.top for node in nodes):  # PyNative, where a path says no more than a bare name
        return [by_name[number] for number in launched]
    by_name = [direction or _of_unscoped(node) for direction, node in zip(by_name, nodes, strict=True)]
    found: Directions = []
    for run in _runs(launched):
        found += _of_run([by_name[number] for number in run], [nodes[number] for number in run])
    return found


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


def _of_run(by_name: Directions, nodes: Sequence[Node]) -> Directions:
    """Find the directions of pieces: all after the last forward kernel are gradients.

    So are those that bear a higher number than one of these, since pieces are numbered as the graph is built, forward
    first. Of the others those in the midst of gradients may be either.
    """
    pieces = [place for place, node in enumerate(nodes) if node.expanded_from and by_name[place] is None]
    if BACKWARD not in by_name:
        return _with(by_name, dict.fromkeys(pieces, FORWARD))
    last_forward = max((place for place, found in enumerate(by_name) if found == FORWARD), default=-1)
    first_gradient: dict[tuple[str | None, str], int] = {}
    for place in pieces:
        if place > last_forward:
            key = nodes[place].expanded_from, nodes[place].type
            first_gradient[key] = min(first_gradient.get(key, nodes[place].number), nodes[place].number)
    before, after = _nearest(by_name), _nearest(by_name[::-1])[::-1]
    found: dict[int, str | None] = {}
    for place in pieces:
        node = nodes[place]
        bound = first_gradient.get((node.expanded_from, node.type))
        if bound is not None and node.number >= bound:
            found[place] = BACKWARD
        else:
            found[place] = None if before[place] == after[place] == BACKWARD else FORWARD
    return _with(by_name, found)


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
