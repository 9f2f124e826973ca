"""Looks up the canonical operators of nodes, scopes, layers and optimizers in canonical/ops.toml."""

from __future__ import annotations

import re
from functools import cache, lru_cache

from unified_profiler.spi.canonical import OPTIMIZER, CanonicalTables, OperatorNames, load_canonical

_KERNEL_VARIANT = re.compile(r"^_*(Mkl)?(Native)?(?=\w)|V\d+$")
_HLO_NUMBER = re.compile(r"^wrapped_|(\.(\d+|clone|remat\d*))+$")
_V1_SUFFIX = re.compile(r"(?<=\w)Optimizer$")
_SUBLAYER = "sublayer."
_REMEMBERED = 1 << 14


class Table:
    """The whole file; layers, optimizers and activations can also be looked up by the scopes named after them."""

    def __init__(self, tables: CanonicalTables) -> None:
        self._kernels, self._hlo = tables.kernel, tables.more["hlo"]
        self._layers = _by_scope(tables.layer)
        self._functions = tables.function
        self._sublayers = {
            name.removeprefix(_SUBLAYER): section for name, section in tables.more.items() if name.startswith(_SUBLAYER)
        }
        self._optimizers = {**tables.optimizer.operators, **_by_scope(tables.optimizer)}
        self.containers = frozenset(map(snake_case, tables.lists["containers"]))
        self.no_layers = tables.lists["no_layers"]
        self.activations = {**tables.more["activation"].operators, **_by_scope(tables.more["activation"])}
        self.activation_ops = frozenset(self.activations.values())
        self.folded = tables.more["folded"].by_operator
        self.with_activation = tables.lists["layers_with_activation"]
        self.standalone = tables.lists["standalone"]
        self.gradients_in_update = tables.lists["gradients_in_update"]
        # graphs have few distinct types and scopes, each of which is looked up for many nodes
        self.kernel = lru_cache(_REMEMBERED)(self._kernel)
        """Returns the operator of a node type or an HLO instruction; variants of a type have the same operator."""
        self.function = lru_cache(_REMEMBERED)(self._function)
        """Returns the operator of a scope that is named after a function or, by default, after a node type."""
        self.is_function = lru_cache(_REMEMBERED)(self._is_function)
        """Returns whether a scope is named after a function or a node type."""

    def _kernel(self, name: str) -> str | None:
        operator = self._node_type(name) or self._hlo.find_exact(_HLO_NUMBER.sub("", name))
        return operator or self._kernels.find_wildcard(name)

    def layer(self, scope: str, *, inside: str | None) -> str | None:
        """Return the operator of a layer or a loss; some scopes are layers only inside certain others."""
        sublayers = self._sublayers.get(inside or "")
        return (sublayers and sublayers.find_exact(scope)) or self._layers.get(scope)

    def _function(self, name: str) -> str | None:
        return self._functions.find_exact(name) or self._node_type(name)

    def _is_function(self, name: str) -> bool:
        return (self.function(name) or self._kernels.find_wildcard(name)) is not None

    def optimizer(self, scope: str) -> str | None:
        """Return the operator of an optimizer, given its class name or its scope."""
        return self._optimizers.get(scope)

    def optimizer_class(self, name: str) -> str:
        """Return the operator of an optimizer class; those of tf.compat.v1 end in `Optimizer`."""
        return self.optimizer(name) or self.optimizer(_V1_SUFFIX.sub("", name)) or OPTIMIZER

    def has_meaning(self, stem: str, class_name: str) -> bool:
        """Return whether any entry is about a scope, given its stem and the class that it is named after."""
        sections = (
            self._layers,
            self.containers,
            self.activations,
            *(each.operators for each in self._sublayers.values()),
        )
        if any(class_name in section for section in sections) or self.function(class_name):
            return True
        return self.is_function(stem) or stem in self.no_layers or self.optimizer(stem) is not None

    def _node_type(self, name: str) -> str | None:
        return self._kernels.find_exact(name, _KERNEL_VARIANT.sub("", name))


@cache
def table() -> Table:
    """Return the table, which is read once."""
    return Table(load_canonical("unified_profiler_tensorflow"))


def snake_case(name: str) -> str:
    """Convert a class name the way Keras does for scopes: LeakyReLU becomes leaky_re_lu."""
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def _by_scope(section: OperatorNames) -> dict[str, str]:
    """Return the operators by the scopes named after the classes."""
    return {snake_case(name): op for name, op in section.operators.items()}
