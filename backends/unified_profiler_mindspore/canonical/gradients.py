"""Which layer's gradient a kernel is part of.

The path of a gradient names one layer of those that use its primitive, which need not be the right one: `Grad_Div` in
`gelu-GELU` may be the gradient of a division in the loss. The primitive is right, and so is what it works on. A layer
is named only if all uses of the primitive that come into question are in layers of the same kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from unified_profiler.spi.canonical import FORWARD
from unified_profiler_mindspore.canonical.assignment import Lookup
from unified_profiler_mindspore.canonical.cell_corrections import corrected
from unified_profiler_mindspore.canonical.graph_locations import Launched, squeezed
from unified_profiler_mindspore.canonical.kernel_names import Node
from unified_profiler_mindspore.read.graph_ir import Graph, Operator, Shape


@dataclass(frozen=True, kw_only=True)
class Use:
    """A use of a primitive in the forward part."""

    origin: str | None
    module: str | None
    in_layer: bool
    """Whether the module is a layer that is known, not one of the program's that uses primitives itself."""
    values: frozenset[str]
    """What it works on and what comes of it, by their keys in the graph."""
    shapes: frozenset[Shape]


class Gradients:
    """What is known of the forward part, by which gradients are told apart."""

    def __init__(self, launched: Sequence[Launched], table: Lookup) -> None:
        """Look at all kernels and at the graphs that they are in."""
        self._table = table
        self._graphs = {id(one.place.graph): one.place.graph for one in launched if one.place}
        self._uses: dict[tuple[int, str], list[Use]] = defaultdict(list)
        for key, graph in self._graphs.items():
            self._look_at(key, graph)
        self._look_at_rest([one for one in launched if one.place is None])
        self._counts: dict[tuple[int, str | None], Counter[str]] = defaultdict(Counter)
        for (graph_key, primitive), uses in self._uses.items():
            for use in uses:
                self._counts[graph_key, use.module][primitive] += 1
        self._siblings = self._of_same_gradient()

    def layer(self, one: Launched) -> tuple[str | None, str | None]:
        """Return origin and module of the layer whose gradient a kernel is part of, each None where it is not known."""
        uses = self._uses_in_question(one)
        origins, modules = {use.origin for use in uses}, {use.module for use in uses}
        origin = origins.pop() if len(origins) == 1 else None
        once = one.place is not None and len(modules) == 1 and self._is_called_once(one, uses)
        return origin, modules.pop() if once else None

    def _is_called_once(self, one: Launched, uses: Sequence[Use]) -> bool:
        """Say whether a layer is called once in its graph: it then uses one of its primitives once.

        Of a Cell that is called again, gradients are told apart by no name; nor are those of the program's own Cells,
        which may use a primitive again.
        """
        graph, primitive = self._key(one)
        if not uses[0].in_layer:
            return sum(use.module == uses[0].module for use in self._uses[graph, primitive]) == 1
        return min(self._counts[graph, uses[0].module].values()) == 1

    # --- the forward part ---------------------------------------------------------------------------------------------

    def _look_at(self, key: int, graph: Graph) -> None:
        for operator in graph.operators:
            node = operator.node
            if not self._is_forward(node):
                continue
            node = corrected(node, graph, operator, self._table)
            shapes = {*graph.input_shapes(operator), *([operator.shape] if operator.shape is not None else [])}
            use = Use(
                origin=self._table.origin(node, FORWARD),
                module=node.module,
                in_layer=self._table.layer_of(node) is not None,
                values=frozenset(graph.sources(operator) | {operator.key}),
                shapes=frozenset(map(squeezed, shapes)),
            )
            self._uses[key, operator.type].append(use)

    def _look_at_rest(self, launched: Sequence[Launched]) -> None:
        """Look at kernels of which no graph is known; pieces that have lost their layer may be of any."""
        for one in launched:
            node, shapes = one.node, frozenset(map(squeezed, one.shapes))
            if node.expanded_from:
                use = Use(origin=None, module=None, in_layer=False, values=frozenset(), shapes=frozenset())
                self._uses[0, node.expanded_from].append(use)
            elif self._is_forward(node):
                origin, in_layer = self._table.origin(node, FORWARD), self._table.layer_of(node) is not None
                use = Use(origin=origin, module=None, in_layer=in_layer, values=frozenset(), shapes=shapes)
                self._uses[0, node.type].append(use)

    def _is_forward(self, node: Node) -> bool:
        return node.top == "Default" and self._table.direction(node) in (FORWARD, None)

    # --- one gradient -------------------------------------------------------------------------------------------------

    def _key(self, one: Launched) -> tuple[int, str]:
        return id(one.place.graph) if one.place else 0, one.node.gradient_of or ""

    def _uses_in_question(self, one: Launched) -> list[Use]:
        if one.place is None:  # it may be in any graph
            uses = [
                use for (_, primitive), some in self._uses.items() if primitive == one.node.gradient_of for use in some
            ]
        else:
            uses = self._by_value(*one.place) or self._uses.get(self._key(one), [])
        return _by_shape(uses, one)

    def _by_value(self, graph: Graph, operator: Operator) -> list[Use]:
        """Return the uses that have to do with the same values, or those of another part of the same gradient."""
        own = self._by_own_value(graph, operator)
        if len(own) == 1:
            return own
        others = {id(use): use for use in self._siblings.get((id(graph), operator.key), [])}
        return [use for use in own if id(use) in others] if own else list(others.values())

    def _by_own_value(self, graph: Graph, operator: Operator) -> list[Use]:
        primitive = operator.node.gradient_of
        values = {key for key in graph.sources(operator) if not _is_gradient(graph, key)}
        return [use for use in self._uses.get((id(graph), primitive or ""), []) if values and values <= use.values]

    def _of_same_gradient(self) -> dict[tuple[int, str], list[Use]]:
        """Return for each gradient the uses that are certain of others of its primitive that take the same gradient."""
        certain: dict[tuple[int, str | None, str], list[Use]] = defaultdict(list)
        members: dict[tuple[int, str | None, str], list[str]] = defaultdict(list)
        for number, graph in self._graphs.items():
            for operator in graph.operators:
                primitive = operator.node.gradient_of
                uses = self._by_own_value(graph, operator) if primitive else []
                for key in graph.sources(operator) if primitive else ():
                    if _is_gradient(graph, key):
                        members[number, primitive, key].append(operator.key)
                        certain[number, primitive, key] += uses if len(uses) == 1 else []
        found: dict[tuple[int, str], list[Use]] = defaultdict(list)
        for group, keys in members.items():
            for key in keys:
                found[group[0], key] += certain[group]
        return found


def _is_gradient(graph: Graph, key: str) -> bool:
    return key in graph.by_key and graph.by_key[key].name.startswith("Gradients/")


def _by_shape(uses: Sequence[Use], one: Launched) -> list[Use]:
    """Leave out the uses that have to do with none of a kernel's shapes, unless none would be left."""
    shapes = {squeezed(shape) for shape in one.shapes}
    if one.place and one.place.operator.shape is not None:
        shapes.add(squeezed(one.place.operator.shape))
    wanted = {shape for shape in shapes if shape} or shapes
    left = [use for use in uses if wanted <= use.shapes]
    return left or list(uses)
