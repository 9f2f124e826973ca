"""Canonical operators of TensorFlow nodes: what each is (`op`), what caused it (`origin`) and in which direction.

The type of a node tells what it is; its path, made of the scopes of layers, losses and optimizers, tells the rest.
The names are in canonical_ops.toml.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache, cached_property
from importlib.resources import files
from itertools import takewhile
from types import MappingProxyType
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"

_NO_SCOPES: Mapping[str, str] = MappingProxyType({})
_CALLS = re.compile(r"^((Stateful)?PartitionedCall(_\d+)*/)+")
_NEW_PATH = re.compile(r"(?:^|(?<=/))(?:(?:gradient_tape|gradients)(?:_\d+)*|(?:body|cond|then|else|true|false)/_\d+)/")
"""What begins the path of another graph: after it the scopes of layers are spelled out again."""
_GRADIENT = re.compile(r"(^|/)(gradient_tape|gradients)(_\d+)*/|_grad(_\d+)*/")
_GRADIENT_SUFFIX = re.compile(r"_grad(_\d+)*$")
_NUMBERS = re.compile(r"(_\d+)+$")
_LAST_NUMBER = re.compile(r"_\d+$")
"""What TensorFlow appends to the name of a layer to make a scope that is not there yet."""
_BIDIRECTIONAL = re.compile(r"^(forward|backward)_")
_GRADIENT_SUM = re.compile(r"AddN(_\d+)*$")
_COMPOSITION = "unary_ops_composition"
_UPDATE_TYPE = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]")
_KERNEL_VARIANT = re.compile(r"^_*(Mkl)?(Native)?(?=\w)|V\d+$")
_HLO_NUMBER = re.compile(r"^wrapped_|(\.(\d+|clone|remat\d*))+$")


@dataclass(frozen=True)
class Canonical:
    """What is known about a node; None for what is not."""

    op: str | None
    origin: str | None
    direction: str | None


def lookup(node: str | None, op_type: str, scopes: Mapping[str, str] = _NO_SCOPES) -> Canonical:
    """Find operator, origin and direction of a node. Not cached: ask once for each distinct node.

    Args:
        node: The name of the node, a path; None where there is none (eager operators, XLA), and then only the
            operator can be told.
        op_type: The type of the node, or the name of an HLO instruction.
        scopes: Names of live layers, losses and optimizers with the names of their classes. They come before what the
            default names tell. An optimizer of a class that is not in the table may be called `Optimizer`.
    """
    op = _table().kernel(op_type)
    if node is None:
        return Canonical(op, None, None)
    path = _Path(node, scopes)
    op = op or path.last_of_composition
    if _GRADIENT.search(node):
        return Canonical(op, path.origin(op), BACKWARD)
    if (optimizer := path.optimizer) or _UPDATE_TYPE.match(op_type):
        return Canonical(op, optimizer or op, UPDATE)
    return Canonical(op, path.origin(op), BACKWARD if _GRADIENT_SUM.match(path.text) else FORWARD)


def layer_scope(node: str, scopes: Mapping[str, str] = _NO_SCOPES) -> str | None:
    """Return the scope of the layer, or the loss, that a node belongs to, backward as forward; None outside of them.

    Where no scope is one of a known layer, whatever encloses the operator is taken for one.
    """
    path = _Path(node, scopes)
    return path.layer_scope() if _GRADIENT.search(node) or not path.optimizer else None


@dataclass(frozen=True)
class _Path:
    """The name of a node, taken apart."""

    node: str
    scopes: Mapping[str, str]

    @cached_property
    def text(self) -> str:
        """The path without the calls of functions that it was inlined from."""
        return _CALLS.sub("", self.node)

    @cached_property
    def parts(self) -> list[str]:
        return self.text.split("/")

    @cached_property
    def optimizer(self) -> str | None:
        """The operator of the optimizer in whose scope the node is."""
        found = (_table().optimizers.get(self._class_of(part)) for part in self.parts)
        return next((op for op in found if op), None)

    @property
    def last_of_composition(self) -> str | None:
        """The last operator of a chain that TensorFlow made one: the node is named after it, the others are unknown."""
        *_, root = ("", *self.parts[:-1])
        return _table().function(_stem(root)) if self.parts[-1] == _COMPOSITION else None

    def origin(self, op: str | None) -> str | None:
        """Return the operator of the innermost layer; outside of layers, of the forward operator; or the node's own."""
        table, parents = _table(), self.parts[:-1]
        layer = next((found for _, found in reversed(self._layers(parents)) if found), None)
        if op in table.folded.get(layer or "", ()):
            return op
        if layer is None or layer in table.with_activation:
            layer = self._activation(parents, op) or layer
        if layer is not None:
            return layer
        functions = (table.function(_stem(part)) for part in reversed(parents))
        return next((found for found in functions if found), op)

    def _activation(self, parents: Sequence[str], op: str | None) -> str | None:
        """Return the activation that a node is a part of; one that ends a fused operator is the smallest part of it."""
        table = _table()
        if op in table.with_activation:
            return None
        found = (table.activations.get(self._class_of(part)) for part in parents)
        return next((name for name in found if name), op if op in table.activation_ops else None)

    def layer_scope(self) -> str | None:
        """Return the path down to the innermost layer, spelled out once where loops and gradients repeat it."""
        fallback = ""
        for piece in reversed(_NEW_PATH.split(self.text)):
            parents = piece.split("/")[:-1]
            if layers := self._layers(parents):
                return "/".join(parents[: layers[-1][0] + 1])
            fallback = fallback or "/".join(takewhile(_may_be_layer, parents))
        return fallback or None

    def _layers(self, parents: Sequence[str]) -> list[tuple[int, str | None]]:
        """Return where in the path there are layers and losses, and the operators of those that are one."""
        table, inside = _table(), None
        found: list[tuple[int, str | None]] = []
        for place, part in enumerate(parents):
            scope = self._class_of(part)
            if found and scope == self._class_of(parents[found[-1][0]]):
                continue  # a layer that uses the function of the same name
            operator = table.layer(scope, inside=inside)
            alone = not found and table.function(scope)  # `add` is a layer in a model, but alone it is an operator
            if operator or self._live_class(part) or (scope in table.containers and not inside and not alone):
                found.append((place, operator))
            inside = operator or inside
        return found

    def _class_of(self, part: str) -> str:
        """Return the class that a scope is named after, as far as is known, in the spelling of scopes."""
        live = self._live_class(part)
        return _snake_case(live) if live else _BIDIRECTIONAL.sub("", _stem(part))

    def _live_class(self, part: str) -> str | None:
        part = _GRADIENT_SUFFIX.sub("", part)
        return self.scopes.get(part) or self.scopes.get(_LAST_NUMBER.sub("", part))


def _may_be_layer(part: str) -> bool:
    stem = _stem(part)
    return _table().function(stem) is None and stem not in _table().no_layers


def _stem(part: str) -> str:
    return _NUMBERS.sub("", _GRADIENT_SUFFIX.sub("", part))


def _snake_case(name: str) -> str:
    """Write the name of a class as Keras does where it names scopes after classes: LeakyReLU is leaky_re_lu."""
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


class _Table:
    """The whole file, ready to be asked. Its sections list what an operator stands for, as `operator = [names]`."""

    def __init__(self, sections: Mapping[str, Mapping[str, Any]]) -> None:
        self._kernels, self._hlo = _inverted(sections["kernel"]), _inverted(sections["hlo"])
        self._kernel_patterns = [(re.compile(translate(n)), op) for n, op in self._kernels.items() if "*" in n]
        self._layers = _by_scope(sections["layer"])
        self._functions = _inverted(sections["function"])
        self._sublayers = {outer: _inverted(inner) for outer, inner in sections["sublayer"].items()}
        self.containers = frozenset(map(_snake_case, sections["container"]["classes"]))
        self.no_layers = frozenset(sections["container"]["no_layers"])
        self.optimizers = _inverted(sections["optimizer"]) | _by_scope(sections["optimizer"])
        self.activations = _inverted(sections["activation"]) | _by_scope(sections["activation"])
        self.activation_ops = frozenset(self.activations.values())
        self.folded: Mapping[str, Sequence[str]] = sections["folded"]
        self.with_activation = frozenset(sections["container"]["operators_with_activation"])

    def kernel(self, name: str) -> str | None:
        """Return the operator of a node type or an HLO instruction; variants of a type are the same operator."""
        found = self._kernels.get(name) or self._kernels.get(_KERNEL_VARIANT.sub("", name))
        if found := found or self._hlo.get(_HLO_NUMBER.sub("", name)):
            return found
        return next((op for pattern, op in self._kernel_patterns if pattern.match(name)), None)

    def layer(self, scope: str, *, inside: str | None) -> str | None:
        """Return the operator of a layer or a loss; some scopes mean a layer inside certain others only."""
        return self._sublayers.get(inside or "", {}).get(scope) or self._layers.get(scope)

    def function(self, name: str) -> str | None:
        """Return the operator of a scope that is named after a function or, as is the default, after a node type."""
        return self._functions.get(name) or self._kernels.get(name)


@cache
def _table() -> _Table:
    """Read canonical_ops.toml, once."""
    text = (files("unified_profiler_tensorflow") / "canonical_ops.toml").read_text(encoding="utf-8")
    return _Table(tomllib.loads(text))


def _inverted(section: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {name: op for op, names in section.items() for name in names}


def _by_scope(section: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Key by the scope that is named after each class."""
    return {_snake_case(name): op for name, op in _inverted(section).items()}
