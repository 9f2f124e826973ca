"""Where in their graphs kernels are.

MindSpore numbers the kernels of one path and type in the order in which they are in the graph, on from graph to graph,
so that numbers in a file of a graph are others. Pieces of operators that were taken apart have no path but the type of
these: they are numbered in the same order, and if all operators of a type give equally many pieces, or it is known how
many each gives, their numbers tell the operator.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from unified_profiler_mindspore.canonical.assignment import Lookup
from unified_profiler_mindspore.canonical.cell_corrections import corrected
from unified_profiler_mindspore.canonical.kernel_names import Node
from unified_profiler_mindspore.canonical.updates import unscoped_updates
from unified_profiler_mindspore.read.graph_ir import Graph, Operator, Shape

_RENAMED = {"Conv2DBackpropInput": "Conv2DTranspose"}
"""Types of kernels that are called otherwise in the graph."""


class Place(NamedTuple):
    """An operator in a graph."""

    graph: Graph
    operator: Operator


@dataclasses.dataclass(frozen=True)
class Launched:
    """All about a kernel that is the same each time it is launched."""

    name: str
    node: Node
    shapes: tuple[Shape, ...]
    """Shapes of the tensors that it takes, of the first time."""
    place: Place | None = None


def placed(launched: Sequence[Launched], graphs: Sequence[Graph], table: Lookup) -> list[Launched]:
    """Return the kernels with their places; a piece's node is that of the operator it is a piece of."""
    if not graphs:
        return list(launched)
    updating = {id(graph): unscoped_updates(graph, table) for graph in graphs}
    operators = [_by_path_and_by_type(graph) for graph in graphs]
    known = {name for of in operators for name in of}
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, one in enumerate(launched):
        rows[_operators_of(one, known), one.node.type].append(row)
    found: dict[int, Place] = {}
    for (wanted, kind), alike in rows.items():
        places = [of[wanted] for of in operators if wanted in of]
        if len(places) == 1:  # of several graphs it is not known which was numbered first
            found |= _dealt(kind, sorted(alike, key=lambda row: launched[row].node.number), places[0], launched)
    return [_placed(one, found[row], table, updating) if row in found else one for row, one in enumerate(launched)]


def _operators_of(one: Launched, known: Collection[str]) -> str:
    """Return by what the operators of a kernel are found: path and type, or the type alone of pieces."""
    kind, path = one.node.type, one.name.rpartition("/")[0]
    if one.node.expanded_from or not path:
        return one.node.expanded_from or ""
    return f"{path}/{kind}" if f"{path}/{kind}" in known else f"{path}/{_RENAMED.get(kind, kind)}"


def _by_path_and_by_type(graph: Graph) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = defaultdict(list)
    for operator in graph.operators:
        found[f"{operator.name.rpartition('/')[0]}/{operator.type}"].append(Place(graph, operator))
        found[operator.type].append(Place(graph, operator))
    return dict(found)


def _placed(one: Launched, place: Place, table: Lookup, updating: Mapping[int, set[str]]) -> Launched:
    node = dataclasses.replace(
        corrected(place.operator.node, place.graph, place.operator, table),
        type=one.node.type,
        expanded_from=one.node.expanded_from,
        number=one.node.number,
        in_graph=True,
        in_update=place.operator.key in updating[id(place.graph)],
    )
    return dataclasses.replace(one, node=node, place=place)


def _dealt(kind: str, alike: Sequence[int], places: Sequence[Place], launched: Sequence[Launched]) -> dict[int, Place]:
    """Deal kernels of one path and type out to their operators; none if they do not add up, or do not fit."""
    numbers = [launched[row].node.number for row in alike]
    counts = _counts(kind, len(alike), places)
    if numbers != list(range(numbers[0], numbers[0] + len(alike))) or sum(counts) != len(alike):
        return {}
    dealt = [place for place, count in zip(places, counts, strict=True) for _ in repeat(None, count)]
    fit = all(_fits(launched[row].shapes, place) for row, place in zip(alike, dealt, strict=True))
    return dict(zip(alike, dealt, strict=True)) if fit else {}


def _counts(kind: str, total: int, places: Sequence[Place]) -> list[int]:
    """Return how many kernels of one type each operator gives."""
    primitive = places[0].operator.type
    if primitive in _VARYING and kind != primitive:
        return [_VARYING[primitive](place.graph.input_shapes(place.operator))[kind] for place in places]
    return [total // len(places)] * len(places)


def _product_of_matrices(shapes: Sequence[Shape]) -> Counter[str]:
    """Return what a product is taken apart into: operands of more dimensions are first made to have the same."""
    if len(shapes) < 2 or min(map(len, shapes)) < 2:
        return Counter()
    left, right = (shape[:-2] for shape in shapes[:2])
    if not left and not right:
        return Counter(MatMul=1)
    rank = max(len(left), len(right))
    left, right = ((1,) * (rank - len(batch)) + batch for batch in (left, right))
    both = tuple(map(max, left, right))
    return Counter(BatchMatMul=1, BroadcastTo=(left != both) + (right != both))


_VARYING = {"MatMulExt": _product_of_matrices}
"""Operators that are taken apart differently, depending on their shapes."""


def _fits(shapes: Sequence[Shape], place: Place) -> bool:
    """Say whether a piece takes something of its operator's shape; a piece of numbers, or of unknown shapes, may."""
    whole = {squeezed(shape) for shape in shapes if shape}
    own = {squeezed(shape) for shape in (*place.graph.input_shapes(place.operator), place.operator.shape or ())}
    return not whole or not own or bool(whole & own)


def squeezed(shape: Shape) -> Shape:
    """Return a shape without dimensions of size one."""
    return tuple(size for size in shape if size != 1)
