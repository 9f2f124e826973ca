"""Parses node names into scopes and finds the layers, losses and optimizers among them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import NamedTuple

from unified_profiler_tensorflow.canonical.live_names import LiveNames, ScopeObject
from unified_profiler_tensorflow.canonical.table import table

_GRADIENT = re.compile(r"(^|/)(gradient_tape|gradients)(_\d+)*/|_grad(_\d+)*/")
_BRANCH = r"(?:body|cond|then|else|true|false)/_\d+/"
_CALL = r"(?:Stateful)?PartitionedCall(?:_\d+)*/"
_ENCLOSING = re.compile(rf"^(?:Func/|{_CALL}|(?:while|cond)(?:_\d+)*/(?:{_BRANCH}|(?!\w+/_\d+$)))+")
"""Function calls, loops and conditions that enclose the whole path, which starts after them."""
_INSIDE_CALL = re.compile(rf"(?<=/){_CALL}")
_GRAPH_PREFIX = re.compile(rf"^.*(?<![^/])(?:{_CALL}|{_BRANCH})")
_CALL_PREFIX = re.compile(rf"^.*(?<![^/]){_CALL}")
_NESTED_GRAPH = re.compile(rf"(?:^|(?<=/))(?:(?:gradient_tape|gradients)(?:_\d+)*/|{_BRANCH})")
"""Start of the path of another graph, in which the scopes of layers are repeated."""
STRUCTURE = frozenset(
    {
        *("", "Func", "PartitionedCall", "StatefulPartitionedCall", "while", "cond", "gradient_tape", "gradients"),
        *("body", "then", "else", "true", "false", "AddN", "unary_ops_composition"),
    }
)
"""The names of scopes and nodes that the patterns for paths contain, here and in `assignment`."""
_FOLDED = "ArithmeticOptimizer/FoldTransposeIntoMatMul_"
_GRADIENT_SUFFIX = re.compile(r"_grad(_\d+)*$")
_NUMBERS = re.compile(r"(_\d+)+$")
_BIDIRECTIONAL = re.compile(r"^(forward|backward)_")
_SCOPES = 1 << 14
"""How many scopes are remembered: the nodes of a graph share few scopes, and each is looked up many times."""
_COMPOSITION = "unary_ops_composition"


class _LayerScope(NamedTuple):
    position: int
    operator: str | None
    certain: bool = True


class NodePath:
    """The name of a node, and the live objects that its scopes may be named after."""

    def __init__(self, node: str, live: LiveNames) -> None:
        self.node, self.live = node, live
        self.text = _INSIDE_CALL.sub("", _ENCLOSING.sub("", node))
        """The path without the function calls that it was inlined from."""
        self.parts = self.text.split("/")
        """The scopes, followed by the node's own name."""
        self.is_gradient = _GRADIENT.search(node) is not None
        """Whether a scope is that of a gradient."""

    @cached_property
    def optimizer(self) -> ScopeObject | None:
        """The innermost optimizer whose scope contains the node; it may be uncertain.

        In tf.compat.v1 the last node of an update has the name of the optimizer itself.
        """
        parts = self.parts[:-1] if self.parts[-1].islower() else self.parts
        return next(filter(None, map(self._optimizer_of, reversed(parts))), None)

    @property
    def creator(self) -> str | None:
        """The kind of live object that created a node without a scope, or the condition that contains the node."""
        return creator_of(self.node, self.live)

    @property
    def last_of_composition(self) -> str | None:
        """The last operator of a chain that TensorFlow fused: the node is named after it, the others are unknown."""
        *_, root = ("", *self.parts[:-1])
        return table().function(scope_stem(root)) if self.parts[-1] == _COMPOSITION else None

    def origin(self, op: str | None) -> str | None:
        """Return the operator of the innermost layer; outside of layers, the forward operator or the node's own.

        None where layers of different classes share the name.
        """
        parents = self.parts[:-1]
        layers = reversed(self._layers(parents))
        innermost = next((layer for layer in layers if layer.operator or not layer.certain), None)
        if innermost and not innermost.certain:
            return None
        return self._origin_in(innermost.operator if innermost else None, parents, op)

    def _origin_in(self, layer: str | None, parents: Sequence[str], op: str | None) -> str | None:
        if op in table().folded.get(layer or "", ()):
            return op
        if layer is None or layer in table().with_activation:
            layer = self._activation(parents, op) or layer
        if layer is not None:
            return layer
        functions = (table().function(self._class_name(part)) for part in reversed(parents))
        return next(filter(None, functions), None) or self._forward_op or op

    @property
    def _forward_op(self) -> str | None:
        """The operator whose gradient contains the node, if only the live graph identifies it."""
        forward = forward_type(self.node, self.live)
        return table().kernel(forward) if forward else None

    def _activation(self, parents: Sequence[str], op: str | None) -> str | None:
        """Return the activation that a node belongs to; an operator fused with its activation does not."""
        if op in table().with_activation:
            return None
        activations = (table().activations.get(self._class_name(part)) for part in parents)
        return next(filter(None, activations), op if op in table().activation_ops else None)

    def layer(self) -> slice | None:
        """Return which parts lead to the innermost layer, without the repetitions in loops and gradients."""
        fallback = None
        for first, end in reversed(self._graphs()):
            parents = self.parts[first:end]
            if layers := self._layers(parents):
                return slice(first, first + layers[-1].position + 1)
            enclosing = list(takewhile(self._may_be_layer, parents))
            if fallback is None and "/".join(enclosing):
                fallback = slice(first, first + len(enclosing))
        return fallback

    def _graphs(self) -> list[tuple[int, int]]:
        """Return the first part and the end of the scopes of each graph in the path, the outermost first."""
        edges = [0]
        for match in _NESTED_GRAPH.finditer(self.text):
            edges += [self.text.count("/", 0, match.start()), self.text.count("/", 0, match.end())]
        edges.append(len(self.parts) - 1)
        return list(zip(edges[::2], edges[1::2], strict=True))

    def positions(self) -> list[int]:
        """Return the position of each part among all scopes in the name of the node, including function calls."""
        enclosing = _ENCLOSING.match(self.node)
        start = enclosing.end() if enclosing else 0
        calls = {self.node.count("/", 0, start + call.start()) for call in _INSIDE_CALL.finditer(self.node[start:])}
        return [part for part in range(self.node.count("/", 0, start), self.node.count("/") + 1) if part not in calls]

    def _layers(self, parents: Sequence[str]) -> list[_LayerScope]:
        """Return the layers and losses in the path, with the canonical operator of each that has one."""
        layers: list[_LayerScope] = []
        inside: str | None = None
        for position, part in enumerate(parents):
            if layers and self._class_name(part) == self._class_name(parents[layers[-1].position]):
                continue  # a layer that uses the function of the same name
            layer = self._layer(part, position, inside=inside, first=not layers)
            if layer and not (inside and layer.operator == inside):  # the cell of a recurrent layer is a part of it
                layers.append(layer)
                inside = layer.operator or inside
        return layers

    def _layer(self, part: str, position: int, *, inside: str | None, first: bool) -> _LayerScope | None:
        """Return the layer that a scope is named after; None for the scope of a function."""
        owner, function = self._owner(part), table().function(scope_stem(part))
        if owner and inside and function:
            return None  # a function inside a Keras layer; a user's layer has the same name by coincidence
        if owner and not owner.certain:
            return _LayerScope(position, None, certain=False)
        if owner and owner.update:
            return None
        class_name = self._class_name(part)
        operator = table().layer(class_name, inside=inside)
        is_container = owner is not None or class_name in table().containers
        if operator or (is_container and not inside and not (first and function)):
            return _LayerScope(position, operator)  # `add` is a layer in a model, but alone it is an operator
        return None

    def _class_name(self, part: str) -> str:
        """Return the class that a scope is named after, in the spelling of scopes; by default the scope's stem."""
        owner = self._owner(part)
        return owner.class_name if owner and owner.class_name else class_stem(part)

    def _optimizer_of(self, part: str) -> ScopeObject | None:
        if owner := self._owner(part):
            return owner if owner.update else None
        update = table().optimizer(scope_stem(part))
        return ScopeObject(update=update) if update else None

    def _owner(self, part: str) -> ScopeObject | None:
        return self.live.get(forward_scope(part))

    def _may_be_layer(self, part: str) -> bool:
        stem = scope_stem(part)
        return not (stem in table().no_layers or table().is_function(stem) or part.startswith("_"))


def creator_of(node: str, live: LiveNames) -> str | None:
    """Return the kind of live object that created a node without a scope; see `NodePath.creator`."""
    if not live.roots:
        return None
    return live.roots.get(_CALL_PREFIX.sub("", node).partition("/")[0])


def forward_type(node: str, live: LiveNames) -> str | None:
    """Return the type of the forward node that a node in a gradient belongs to, if the live graph contains it."""
    return live.gradients.get(name_in_graph(node)) if live.gradients else None


def name_in_graph(node: str) -> str:
    """Return the name of a node in its own graph, before it was inlined from calls, loops and conditions.

    The prefix that TensorFlow adds when it folds a transposition into a product is removed.
    """
    return _GRAPH_PREFIX.sub("", node).replace(_FOLDED, "")


@lru_cache(_SCOPES)
def forward_scope(part: str) -> str:
    """Return the scope whose gradient a scope contains, by default the scope itself."""
    return _GRADIENT_SUFFIX.sub("", part)


@lru_cache(_SCOPES)
def scope_stem(part: str) -> str:
    """Return the name of a scope, for a gradient that of its forward scope, without the numbers that make it unique."""
    return _NUMBERS.sub("", forward_scope(part))


@lru_cache(_SCOPES)
def class_stem(part: str) -> str:
    """Return the class that a scope is named after by default."""
    return _BIDIRECTIONAL.sub("", scope_stem(part))
