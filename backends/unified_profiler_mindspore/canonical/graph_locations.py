"""Locates the kernels that ran in the graphs that were recorded.

MindSpore numbers the kernels of one path and type in graph order, continuing from graph to graph, so that the numbers
in a graph file differ. Parts of expanded operators have no path, only the type of the operator. They are numbered in
the same order, so their numbers identify the operator if all operators of a type expand into equally many parts, or if
the number of parts of each is known.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from unified_profiler_mindspore.canonical.assignment import Lookup
from unified_profiler_mindspore.canonical.cell_corrections import correct_cells
from unified_profiler_mindspore.canonical.kernel_names import Node
from unified_profiler_mindspore.canonical.updates import unscoped_updates
from unified_profiler_mindspore.read.graph_ir import Graph, Operator, Shape

_GRAPH_TYPES = {"Conv2DBackpropInput": "Conv2DTranspose"}
"""Type in the graph of kernels whose own type differs."""


class GraphLocation(NamedTuple):
    """An operator in a graph."""

    graph: Graph
    operator: Operator


@dataclasses.dataclass(frozen=True)
class Kernel:
    """The properties of a kernel that are the same in each launch."""

    name: str
    node: Node
    shapes: tuple[Shape, ...]
    """Shapes of its input tensors in the first launch."""
    location: GraphLocation | None = None


def locate_kernels(kernels: Sequence[Kernel], graphs: Sequence[Graph], table: Lookup) -> list[Kernel]:
    """Return the kernels with their graph locations; a part gets the node of its operator."""
    updates = {id(graph): unscoped_updates(graph, table) for graph in graphs}
    indexes = [_index_operators(graph) for graph in graphs]
    paths = {path for index in indexes for path in index}
    rows_by_path: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, kernel in enumerate(kernels):
        rows_by_path[_operator_path(kernel, paths), kernel.node.type].append(row)
    locations: dict[int, GraphLocation] = {}
    for (path, _), rows in rows_by_path.items():
        candidates = [index[path] for index in indexes if path in index]
        if len(candidates) == 1:  # with several graphs it is not known which was numbered first
            rows.sort(key=lambda row: kernels[row].node.number)
            locations |= zip(rows, _assign([kernels[row] for row in rows], candidates[0]), strict=False)
    return [
        _with_location(kernel, locations[row], table, updates) if row in locations else kernel
        for row, kernel in enumerate(kernels)
    ]


def _operator_path(kernel: Kernel, paths: Collection[str]) -> str:
    """Return the key of a kernel's operators in the index: path and type, or only the type for parts."""
    kernel_type, path = kernel.node.type, kernel.name.rpartition("/")[0]
    if kernel.node.expanded_from or not path:
        return kernel.node.expanded_from or ""
    own_path = f"{path}/{kernel_type}"
    return own_path if own_path in paths else f"{path}/{_GRAPH_TYPES.get(kernel_type, kernel_type)}"


def _index_operators(graph: Graph) -> dict[str, list[GraphLocation]]:
    """Return the operators of a graph by path and type, and by type alone."""
    index: dict[str, list[GraphLocation]] = defaultdict(list)
    for operator in graph.operators:
        index[f"{operator.name.rpartition('/')[0]}/{operator.type}"].append(GraphLocation(graph, operator))
        index[operator.type].append(GraphLocation(graph, operator))
    return dict(index)


def _with_location(kernel: Kernel, location: GraphLocation, table: Lookup, updates: Mapping[int, set[str]]) -> Kernel:
    graph, operator = location
    node = dataclasses.replace(
        correct_cells(operator, graph, table),
        type=kernel.node.type,
        expanded_from=kernel.node.expanded_from,
        number=kernel.node.number,
        in_graph=True,
        in_update=operator.key in updates[id(graph)],
    )
    return dataclasses.replace(kernel, node=node, location=location)


def _assign(kernels: Sequence[Kernel], operators: Sequence[GraphLocation]) -> list[GraphLocation]:
    """Return the operator of each kernel of one path and type; none if numbers, counts or shapes do not match."""
    numbers = [kernel.node.number for kernel in kernels]
    counts = _kernel_counts(kernels[0].node.type, len(kernels), operators)
    if numbers != list(range(numbers[0], numbers[0] + len(kernels))) or sum(counts) != len(kernels):
        return []
    assigned = [operator for operator, count in zip(operators, counts, strict=True) for _ in repeat(None, count)]
    return assigned if all(map(_shapes_match, kernels, assigned)) else []


def _kernel_counts(kernel_type: str, total: int, operators: Sequence[GraphLocation]) -> list[int]:
    """Return how many kernels of one type each operator launches."""
    primitive = operators[0].operator.type
    if primitive in _VARYING and kernel_type != primitive:
        return [_VARYING[primitive](graph.input_shapes(operator))[kernel_type] for graph, operator in operators]
    return [total // len(operators)] * len(operators)


def _expand_matrix_product(shapes: Sequence[Shape]) -> Counter[str]:
    """Count the kernels of a matrix product: batch dimensions of the operands are first broadcast to each other."""
    if len(shapes) < 2 or min(map(len, shapes)) < 2:
        return Counter()
    left, right = (shape[:-2] for shape in shapes[:2])
    if not left and not right:
        return Counter(MatMul=1)
    rank = max(len(left), len(right))
    left, right = ((1,) * (rank - len(batch)) + batch for batch in (left, right))
    common = tuple(map(max, left, right))
    return Counter(BatchMatMul=1, BroadcastTo=(left != common) + (right != common))


_VARYING = {"MatMulExt": _expand_matrix_product}
"""Operators whose expansion depends on their shapes."""


def _shapes_match(kernel: Kernel, location: GraphLocation) -> bool:
    """Return whether a part has an input of its operator's shape; unknown shapes and scalars always match."""
    graph, operator = location
    kernel_shapes = {squeezed(shape) for shape in kernel.shapes if shape}
    operator_shapes = {squeezed(shape) for shape in (*graph.input_shapes(operator), operator.shape or ())}
    return not kernel_shapes or not operator_shapes or not kernel_shapes.isdisjoint(operator_shapes)


def squeezed(shape: Shape) -> Shape:
    """Return a shape without dimensions of size one."""
    return tuple(size for size in shape if size != 1)
