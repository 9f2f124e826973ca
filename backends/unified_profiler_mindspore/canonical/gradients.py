"""Determines the layer whose gradient a kernel computes.

The path of a gradient names one of the layers that use its primitive, which need not be the right one: `Grad_Div` in
`gelu-GELU` may be the gradient of a division in the loss. The primitive is right, and so are the values it takes. A
layer is reported only if all candidate uses of the primitive are in layers of the same kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from unified_profiler.spi.canonical import FORWARD
from unified_profiler_mindspore.canonical.assignment import Lookup
from unified_profiler_mindspore.canonical.cell_corrections import correct_cells
from unified_profiler_mindspore.canonical.graph_locations import Kernel, squeezed
from unified_profiler_mindspore.canonical.kernel_names import Node
from unified_profiler_mindspore.read.graph_ir import Graph, Operator, Shape


@dataclass(frozen=True, kw_only=True)
class Use:
    """A use of a primitive in the forward pass."""

    origin: str | None = None
    module: str | None = None
    in_layer: bool = False
    """Whether the module is a known layer, not a user-defined Cell that uses primitives itself."""
    values: frozenset[str] = frozenset()
    """Keys of its inputs and of its result in the graph."""
    shapes: frozenset[Shape] = frozenset()


class Gradients:
    """Assigns gradients to layers by comparing them with the uses of their primitive in the forward pass."""

    def __init__(self, kernels: Sequence[Kernel], table: Lookup) -> None:
        """Collect the uses of primitives from all kernels and their graphs."""
        self._table = table
        self._graphs = {id(kernel.location.graph): kernel.location.graph for kernel in kernels if kernel.location}
        self._uses: dict[tuple[int, str], list[Use]] = defaultdict(list)
        for graph_key, graph in self._graphs.items():
            self._add_graph(graph_key, graph)
        self._add_unlocated([kernel for kernel in kernels if kernel.location is None])
        self._counts: dict[tuple[int, str | None], Counter[str]] = defaultdict(Counter)
        for (graph_key, primitive), uses in self._uses.items():
            for use in uses:
                self._counts[graph_key, use.module][primitive] += 1
        self._siblings = self._find_siblings()

    def layer(self, kernel: Kernel) -> tuple[str | None, str | None]:
        """Return origin and module of the layer whose gradient a kernel computes, each None where it is not known."""
        uses = self._candidates(kernel)
        origins, modules = {use.origin for use in uses}, {use.module for use in uses}
        origin = origins.pop() if len(origins) == 1 else None
        is_certain = kernel.location is not None and len(modules) == 1 and self._is_called_once(kernel, uses[0])
        return origin, modules.pop() if is_certain else None

    def _is_called_once(self, kernel: Kernel, use: Use) -> bool:
        """Return whether a layer is called once in its graph, in which case it uses one of its primitives once.

        The gradients of a Cell that is called repeatedly have no distinct names, nor have those of a user-defined Cell
        that uses a primitive repeatedly.
        """
        graph_key, primitive = self._key(kernel)
        if not use.in_layer:
            return sum(other.module == use.module for other in self._uses[graph_key, primitive]) == 1
        return min(self._counts[graph_key, use.module].values()) == 1

    # --- uses in the forward pass -------------------------------------------------------------------------------------

    def _add_graph(self, graph_key: int, graph: Graph) -> None:
        for operator in graph.operators:
            if self._is_forward(operator.node):
                node = correct_cells(operator, graph, self._table)
                shapes = [*graph.input_shapes(operator), *([] if operator.shape is None else [operator.shape])]
                values = frozenset(graph.sources(operator) | {operator.key})
                use = replace(self._use(node, shapes), module=node.module, values=values)
                self._uses[graph_key, operator.type].append(use)

    def _add_unlocated(self, kernels: Sequence[Kernel]) -> None:
        """Add kernels without a known graph; expanded parts have lost their layer and may belong to any."""
        for kernel in kernels:
            if kernel.node.expanded_from:
                self._uses[0, kernel.node.expanded_from].append(Use())
            elif self._is_forward(kernel.node):
                self._uses[0, kernel.node.type].append(self._use(kernel.node, kernel.shapes))

    def _use(self, node: Node, shapes: Iterable[Shape]) -> Use:
        origin, in_layer = self._table.origin(node, FORWARD), self._table.layer_of(node) is not None
        return Use(origin=origin, in_layer=in_layer, shapes=frozenset(map(squeezed, shapes)))

    def _is_forward(self, node: Node) -> bool:
        return node.top == "Default" and self._table.direction(node) in (FORWARD, None)

    # --- candidates for one gradient ----------------------------------------------------------------------------------

    def _key(self, kernel: Kernel) -> tuple[int, str]:
        return id(kernel.location.graph) if kernel.location else 0, kernel.node.gradient_of or ""

    def _candidates(self, kernel: Kernel) -> list[Use]:
        if kernel.location is None:  # it may be in any graph
            differentiated = kernel.node.gradient_of
            groups = [group for (_, primitive), group in self._uses.items() if primitive == differentiated]
            uses = [use for group in groups for use in group]
        else:
            uses = self._match_values(*kernel.location) or self._uses.get(self._key(kernel), [])
        return _match_shapes(uses, kernel)

    def _match_values(self, graph: Graph, operator: Operator) -> list[Use]:
        """Return the uses with the same values, or those of another part of the same gradient."""
        matches = self._match_inputs(graph, operator)
        if len(matches) == 1:
            return matches
        siblings = {id(use): use for use in self._siblings.get((id(graph), operator.key), [])}
        return [use for use in matches if id(use) in siblings] if matches else list(siblings.values())

    def _match_inputs(self, graph: Graph, operator: Operator) -> list[Use]:
        values = {key for key in graph.sources(operator) if not _is_gradient(graph, key)}
        uses = self._uses.get((id(graph), operator.node.gradient_of or ""), [])
        return [use for use in uses if values and values <= use.values]

    def _find_siblings(self) -> dict[tuple[int, str], list[Use]]:
        """Return for each gradient the certain uses of the others with the same primitive and gradient input."""
        certain: dict[tuple[int, str, str], list[Use]] = defaultdict(list)
        members: dict[tuple[int, str, str], list[str]] = defaultdict(list)
        for graph_key, graph in self._graphs.items():
            for operator in graph.operators:
                if primitive := operator.node.gradient_of:
                    uses = self._match_inputs(graph, operator)
                    for source in graph.sources(operator):
                        if _is_gradient(graph, source):
                            members[graph_key, primitive, source].append(operator.key)
                            certain[graph_key, primitive, source] += uses if len(uses) == 1 else []
        siblings: dict[tuple[int, str], list[Use]] = defaultdict(list)
        for group, keys in members.items():
            for key in keys:
                siblings[group[0], key] += certain[group]
        return siblings


def _is_gradient(graph: Graph, key: str) -> bool:
    return key in graph.by_key and graph.by_key[key].name.startswith("Gradients/")


def _match_shapes(uses: Sequence[Use], kernel: Kernel) -> list[Use]:
    """Return the uses that have all of a kernel's shapes, or all uses if none has them."""
    shapes = set(map(squeezed, kernel.shapes))
    if kernel.location and kernel.location.operator.shape is not None:
        shapes.add(squeezed(kernel.location.operator.shape))
    required = {shape for shape in shapes if shape} or shapes
    return [use for use in uses if required <= use.shapes] or list(uses)
