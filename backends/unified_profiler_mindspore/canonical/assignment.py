"""Looks up the canonical operator (`op`), the cause (`origin`) and the direction of MindSpore kernels by their names.

The names come from canonical/ops.toml. What a name leaves open may follow from the order of launches
(`execution_order.py`); what remains uncertain stays null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from unified_profiler.spi.canonical import BACKWARD, FORWARD, OPTIMIZER, UPDATE, load_canonical
from unified_profiler_mindspore.canonical.kernel_names import Node


@dataclass(frozen=True)
class Lookup:
    """The tables of ops.toml, with the queries on them."""

    kernel: Mapping[str, str]
    forward: Mapping[str, str]
    backward: Mapping[str, str]
    layers: Mapping[str, str]
    optimizer: Mapping[str, str]
    anchors: frozenset[str]
    backward_type: re.Pattern[str]
    update_type: re.Pattern[str]

    def with_user_classes(self, bases: Mapping[str, Sequence[str]]) -> Lookup:
        """Return a lookup that also covers the program's own classes, given the names of their bases."""
        optimizers = {
            name: _first_match(names, self.optimizer) or OPTIMIZER
            for name, names in bases.items()
            if "Optimizer" in names
        }
        layers = {name: layer for name, names in bases.items() if (layer := _first_match(names, self.layers))}
        return replace(self, optimizer=optimizers | dict(self.optimizer), layers=layers | dict(self.layers))

    def op(self, node: Node) -> str | None:
        """Return the operator of the kernel itself."""
        return self.kernel.get(node.type)

    def direction(self, node: Node) -> str | None:
        """Return the direction that the path of the name or an optimizer's own type implies."""
        if node.top == "Gradients":
            return BACKWARD
        if node.in_update or self.optimizer_of(node) is not None:
            return UPDATE
        return FORWARD if node.cells else None

    def direction_by_type(self, node: Node) -> str | None:
        """Return the direction that the kernel type suggests; a program may use the type in another direction."""
        return BACKWARD if self.backward_type.search(node.primitive) else None

    def origin(self, node: Node, direction: str | None) -> str | None:
        """Return the operator that caused the kernel, given its direction.

        For gradients it is the operator that was differentiated, not the layer: see `gradients`.
        """
        if direction == UPDATE:
            return self.optimizer_of(node) or OPTIMIZER
        if direction == FORWARD:
            return self.layer_of(node) or self.forward.get(node.type) or self._primitive_op(node.primitive)
        if node.gradient_of:
            return self._primitive_op(node.gradient_of)
        if direction == BACKWARD and node.type in self.backward:
            return self.backward[node.type]
        primitive = node.primitive
        is_certain = node.top == "Gradients" or primitive in self.anchors or self.backward_type.search(primitive)
        return self._primitive_op(primitive) if is_certain else None

    def layer_of(self, node: Node) -> str | None:
        """Return the innermost layer that a kernel is in."""
        return _first_match([cell.kind for cell in reversed(node.cells)], self.layers)

    def optimizer_of(self, node: Node) -> str | None:
        """Return the optimizer whose Cell contains the kernel, or that has the kernel as its own."""
        for cell in node.cells:
            if cell.kind in self.optimizer or cell.attribute == "optimizer":
                return self.optimizer.get(cell.kind, OPTIMIZER)
        return self.kernel.get(node.type, OPTIMIZER) if self.update_type.search(node.type) else None

    def _primitive_op(self, name: str) -> str | None:
        return self.kernel.get(name.removesuffix("Grad")) or self.kernel.get(name)


def _first_match(names: Sequence[str], operators: Mapping[str, str]) -> str | None:
    return next((operators[name] for name in names if name in operators), None)


@cache
def lookup() -> Lookup:
    """Read canonical/ops.toml, once."""
    tables = load_canonical("unified_profiler_mindspore")
    return Lookup(
        kernel=tables.kernel.operators,
        forward=tables.more["forward"].operators,
        backward=tables.more["backward"].operators,
        layers=tables.layer.operators,
        optimizer=tables.optimizer.operators,
        anchors=tables.lists["anchors"],
        backward_type=tables.patterns["backward_type"],
        update_type=tables.patterns["update_type"],
    )
