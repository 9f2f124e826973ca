"""The name of a node, taken apart: which of its scopes are layers, losses or optimizers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from unified_profiler_tensorflow.canonical.live_names import Known, Live
from unified_profiler_tensorflow.canonical.table import table

GRADIENT = re.compile(r"(^|/)(gradient_tape|gradients)(_\d+)*/|_grad(_\d+)*/")
_BRANCH = r"(?:body|cond|then|else|true|false)/_\d+/"
_CALL = r"(?:Stateful)?PartitionedCall(?:_\d+)*/"
_AROUND = re.compile(rf"^(?:Func/|{_CALL}|(?:while|cond)(?:_\d+)*/(?:{_BRANCH}|(?!\w+/_\d+$)))+")
"""Calls of functions, loops and conditions that enclose everything: a path begins after them."""
_INSIDE_CALL = re.compile(rf"(?<=/){_CALL}")
_UP_TO_GRAPH = re.compile(rf"^.*(?<![^/])(?:{_CALL}|{_BRANCH})")
_UP_TO_CALL = re.compile(rf"^.*(?<![^/]){_CALL}")
_NEW_PATH = re.compile(rf"(?:^|(?<=/))(?:(?:gradient_tape|gradients)(?:_\d+)*/|{_BRANCH})")
"""What begins the path of another graph: after it the scopes of layers are spelled out again."""
_FOLDED = "ArithmeticOptimizer/FoldTransposeIntoMatMul_"
_GRADIENT_SUFFIX = re.compile(r"_grad(_\d+)*$")
_NUMBERS = re.compile(r"(_\d+)+$")
_BIDIRECTIONAL = re.compile(r"^(forward|backward)_")
_COMPOSITION = "unary_ops_composition"


class _Layer(NamedTuple):
    place: int
    operator: str | None
    sure: bool = True


@dataclass(frozen=True)
class NodePath:
    """The name of a node, and the names of live objects to read it by."""

    node: str
    live: Live

    @cached_property
    def text(self) -> str:
        """The path without the calls of functions that it was inlined from."""
        return _INSIDE_CALL.sub("", _AROUND.sub("", self.node))

    @cached_property
    def parts(self) -> list[str]:
        """The scopes, and the name of the node itself."""
        return self.text.split("/")

    @cached_property
    def optimizer(self) -> Known | None:
        """The innermost optimizer in whose scope the node is; what the scope is called after may not be sure.

        In tf.compat.v1 the last node of an update has the name of the optimizer itself.
        """
        parts = self.parts[:-1] if self.parts[-1].islower() else self.parts
        return next((found for part in reversed(parts) if (found := self._optimizer_of(part))), None)

    @property
    def maker(self) -> str | None:
        """The sort of live object that made a node without a scope, or the condition that the node is in."""
        return self.live.roots.get(_UP_TO_CALL.sub("", self.node).partition("/")[0])

    @property
    def last_of_composition(self) -> str | None:
        """The last operator of a chain that TensorFlow made one: the node is named after it, the others are unknown."""
        *_, root = ("", *self.parts[:-1])
        return table().function(_stem(root)) if self.parts[-1] == _COMPOSITION else None

    def origin(self, op: str | None) -> str | None:
        """Return the operator of the innermost layer; outside of layers, of the forward operator; or the node's own.

        None where a name is shared by layers of different classes.
        """
        parents = self.parts[:-1]
        innermost = next((layer for layer in reversed(self._layers(parents)) if layer.operator or not layer.sure), None)
        if innermost and not innermost.sure:
            return None
        return self._origin_in(innermost.operator if innermost else None, parents, op)

    def _origin_in(self, layer: str | None, parents: Sequence[str], op: str | None) -> str | None:
        if op in table().folded.get(layer or "", ()):
            return op
        if layer is None or layer in table().with_activation:
            layer = self._activation(parents, op) or layer
        if layer is not None:
            return layer
        functions = (table().function(self._scope_of(part)) for part in reversed(parents))
        return next((found for found in functions if found), None) or self._differentiated or op

    @property
    def _differentiated(self) -> str | None:
        """The operator whose gradient the node is a part of, where only the live graph tells it."""
        forward = self.live.gradients.get(name_in_graph(self.node))
        return table().kernel(forward) if forward else None

    def _activation(self, parents: Sequence[str], op: str | None) -> str | None:
        """Return the activation that a node is a part of; one that ends a fused operator is the smallest part of it."""
        if op in table().with_activation:
            return None
        found = (table().activations.get(self._scope_of(part)) for part in parents)
        return next((name for name in found if name), op if op in table().activation_ops else None)

    def layer_scope(self) -> str | None:
        """Return the path down to the innermost layer, spelled out once where loops and gradients repeat it."""
        fallback = ""
        for piece in reversed(_NEW_PATH.split(self.text)):
            parents = piece.split("/")[:-1]
            if layers := self._layers(parents):
                return "/".join(parents[: layers[-1].place + 1])
            fallback = fallback or "/".join(takewhile(self._may_be_layer, parents))
        return fallback or None

    def _layers(self, parents: Sequence[str]) -> list[_Layer]:
        """Return where in the path there are layers and losses, and the operators of those that are one."""
        found: list[_Layer] = []
        inside: str | None = None
        for place, part in enumerate(parents):
            if found and self._scope_of(part) == self._scope_of(parents[found[-1].place]):
                continue  # a layer that uses the function of the same name
            layer = self._layer(part, place, inside=inside, first=not found)
            if layer and not (inside and layer.operator == inside):  # the cell of a recurrent layer is a part of it
                found.append(layer)
                inside = layer.operator or inside
        return found

    def _layer(self, part: str, place: int, *, inside: str | None, first: bool) -> _Layer | None:
        """Return the layer that a scope is called after; None if it is that of a function."""
        known, function = self._live(part), table().function(_stem(part))
        if known and inside and function:
            return None  # in layers of Keras there are functions; that a layer of the user's is called so is a chance
        if known and not known.sure:
            return _Layer(place, None, sure=False)
        if known and known.update:
            return None
        scope = self._scope_of(part)
        operator = table().layer(scope, inside=inside)
        container = known is not None or scope in table().containers
        if operator or (container and not inside and not (first and function)):
            return _Layer(place, operator)  # `add` is a layer in a model, but alone it is an operator
        return None

    def _scope_of(self, part: str) -> str:
        """Return the class that a scope is named after, as far as is known, in the spelling of scopes."""
        known = self._live(part)
        return known.scope if known and known.scope else _BIDIRECTIONAL.sub("", _stem(part))

    def _optimizer_of(self, part: str) -> Known | None:
        if known := self._live(part):
            return known if known.update else None
        update = table().optimizer(_stem(part))
        return Known(update=update) if update else None

    def _live(self, part: str) -> Known | None:
        return self.live.get(_GRADIENT_SUFFIX.sub("", part))

    def _may_be_layer(self, part: str) -> bool:
        stem = _stem(part)
        return not (stem in table().no_layers or table().is_function(stem) or part.startswith("_"))


def name_in_graph(node: str) -> str:
    """Return the name of a node in its own graph, before it was inlined from calls, loops and conditions.

    A product that took in the transposition before it has a name of its own then, made of the old one.
    """
    return _UP_TO_GRAPH.sub("", node).replace(_FOLDED, "")


def _stem(part: str) -> str:
    return _NUMBERS.sub("", _GRADIENT_SUFFIX.sub("", part))
