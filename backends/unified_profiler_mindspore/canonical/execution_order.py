"""Infers directions that kernel names leave open from the time span or the order in which the kernels ran.

Two kinds of graph kernels carry no scope: parts of expanded operators (`Expand/`), and, in a graph made of a function,
everything outside the gradients. A graph runs the same kernels in the same order each time, with some gradients among
the forward kernels.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from unified_profiler.model.nesting import Ints
from unified_profiler.spi.canonical import BACKWARD, FORWARD
from unified_profiler_mindspore.canonical.assignment import Lookup
from unified_profiler_mindspore.canonical.kernel_names import Node
from unified_profiler_mindspore.read.note import DirectionSpan

_STATE = re.compile(r"^Assign")
"""Kernels that write a parameter: outside of any scope it may belong to the model or to the optimizer."""

Directions = list[str | None]
LaunchSpans = Sequence[DirectionSpan | None]
"""The innermost span of each launch, None outside of all spans."""


def directions(
    launches: Sequence[int], nodes: Sequence[Node], table: Lookup, *, spans: LaunchSpans | None = None
) -> Directions:
    """Return the direction of each launch, None where it is not known.

    Args:
        launches: Indices of the nodes, in the order in which they ran.
        nodes: The parsed kernel names.
        table: Canonical operators by name.
        spans: The gradient computation or parameter update in which each launch ran; None if they were not recorded.
    """
    is_eager = any(not node.top for node in nodes)  # PyNative, where a path adds nothing to a bare name
    if not is_eager:
        has_graph = any(node.in_graph for node in nodes) and any(table.direction(node) == BACKWARD for node in nodes)
        by_node = [table.direction(node) or _graph_direction(node, table, has_graph=has_graph) for node in nodes]
        by_launch = [direction for run in _runs(launches) for direction in _run_directions(run, by_node, nodes)]
    elif spans is None:
        by_node = [table.direction(node) or table.direction_by_type(node) for node in nodes]
        return [by_node[index] for index in launches]
    else:
        has_graph = any(node.in_graph and node.top == "Gradients" for node in nodes)
        by_node = [table.direction(node) or _eager_direction(node, has_graph=has_graph) for node in nodes]
        by_launch = [by_node[index] for index in launches]
    if spans is None:
        return by_launch
    return [span.direction if span else direction for span, direction in zip(spans, by_launch, strict=True)]


def innermost_spans(start_ns: Ints, spans: Sequence[DirectionSpan]) -> list[DirectionSpan | None]:
    """Return the innermost span that each launch began in."""
    innermost: list[DirectionSpan | None] = [None] * len(start_ns)
    for span in sorted(spans, key=lambda span: (span.start_ns, -span.stop_ns)):
        first, last = np.searchsorted(start_ns, [span.start_ns, span.stop_ns])
        innermost[first:last] = [span] * int(last - first)
    return innermost


def _eager_direction(node: Node, *, has_graph: bool) -> str | None:
    """Return the direction outside of gradient and update spans; expanded parts and writes in graphs may be either."""
    if node.in_graph:
        return _unscoped_direction(node)
    return None if has_graph and node.expanded_from else FORWARD


def _graph_direction(node: Node, table: Lookup, *, has_graph: bool) -> str | None:
    """Return the direction of a graph kernel; one that is missing from a recorded graph with gradients may be either.

    MindSpore inserts copies of that kind after it has built the graph.
    """
    if node.in_graph:
        return _unscoped_direction(node)
    return table.direction_by_type(node) or (None if has_graph else _unscoped_direction(node))


def _unscoped_direction(node: Node) -> str | None:
    return FORWARD if node.is_unscoped and not _STATE.search(node.type) else None


def _runs(launches: Sequence[int]) -> Iterator[list[int]]:
    """Split launches into runs of a graph: a run ends where a kernel repeats."""
    run: dict[int, None] = {}
    for index in launches:
        if index in run:
            yield list(run)
            run = {}
        run[index] = None
    if run:
        yield list(run)


def _run_directions(run: Sequence[int], by_node: Directions, all_nodes: Sequence[Node]) -> Directions:
    """Infer the direction of parts without a graph location: all after the last forward kernel are gradients.

    So are those with a higher number than one of these, since parts are numbered as the graph is built, forward first.
    Of the others, those next to gradients may be either, unless one with a higher number is forward.
    """
    known, nodes = [by_node[index] for index in run], [all_nodes[index] for index in run]
    parts = [position for position, node in enumerate(nodes) if node.expanded_from and known[position] is None]
    if BACKWARD not in known:
        return _merge(known, dict.fromkeys(parts, FORWARD))
    last_forward = max((position for position, direction in enumerate(known) if direction == FORWARD), default=-1)
    first_gradient = _select_numbers([nodes[position] for position in parts if position > last_forward], min)
    is_amid_forward = _amid_forward(known)
    last_number = _select_numbers([nodes[position] for position in parts if is_amid_forward[position]], max)
    inferred: dict[int, str | None] = {}
    for position in parts:
        key, number = _part_type(nodes[position]), nodes[position].number
        if key in first_gradient and number >= first_gradient[key]:
            inferred[position] = BACKWARD
        else:
            inferred[position] = FORWARD if number <= last_number.get(key, -1) else None
    return _merge(known, inferred)


def _part_type(node: Node) -> tuple[str | None, str]:
    return node.expanded_from, node.type


def _select_numbers(parts: Sequence[Node], select: Callable[[Sequence[int]], int]) -> dict[tuple[str | None, str], int]:
    """Return the highest or lowest number of the parts of each type."""
    numbers: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for node in parts:
        numbers[_part_type(node)].append(node.number)
    return {part_type: select(values) for part_type, values in numbers.items()}


def _amid_forward(known: Directions) -> list[bool]:
    """Return for each launch whether the nearest launches of known direction before and after it are forward."""
    before, after = _last_known(known), _last_known(known[::-1])[::-1]
    return [earlier in (FORWARD, None) and later == FORWARD for earlier, later in zip(before, after, strict=True)]


def _last_known(known: Directions) -> Directions:
    """Return the last known direction before each launch."""
    last: Directions = [None]
    for direction in known[:-1]:
        last.append(direction or last[-1])
    return last


def _merge(known: Directions, inferred: Mapping[int, str | None]) -> Directions:
    return [inferred.get(position, direction) for position, direction in enumerate(known)]
