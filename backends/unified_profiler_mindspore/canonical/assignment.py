"""Canonical operators of MindSpore's kernels: what each is (`op`), what caused it (`origin`) and in which direction.

Names are looked up once per distinct name in canonical/ops.toml. What a name does not tell, the order of launches may
(`order.py`); what neither tells for certain stays null.
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
    """The whole file, ready to be asked."""

    kernel: Mapping[str, str]
    forward: Mapping[str, str]
    backward: Mapping[str, str]
    layers: Mapping[str, str]
    optimizer: Mapping[str, str]
    anchors: frozenset[str]
    backward_type: re.Pattern[str]
    update_type: re.Pattern[str]

    def knowing(self, bases: Mapping[str, Sequence[str]]) -> Lookup:
        """Return what also knows classes of the program, given the names of their bases."""
        optimizers = {
            name: self._nearest(of, self.optimizer) or OPTIMIZER for name, of in bases.items() if "Optimizer" in of
        }
        layers = {name: layer for name, of in bases.items() if (layer := self._nearest(of, self.layers))}
        return replace(self, optimizer=optimizers | dict(self.optimizer), layers=layers | dict(self.layers))

    def op(self, node: Node) -> str | None:
        """Return the operator of the kernel itself."""
        return self.kernel.get(node.type)

    def direction(self, node: Node) -> str | None:
        """Return the direction, where the path of the name or an optimizer's own type tells it."""
        if node.top == "Gradients":
            return BACKWARD
        if node.in_update or self.optimizer_of(node) is not None:
            return UPDATE
        return FORWARD if node.cells else None

    def direction_by_type(self, node: Node) -> str | None:
        """Return the direction, where the type of the kernel tells it: somebody may use it for something else."""
        by_type = self.backward_type.search(node.expanded_from or node.type)
        return BACKWARD if by_type else None

    def origin(self, node: Node, direction: str | None) -> str | None:
        """Return the operator of what caused the kernel, given its direction.

        Of gradients it is the operator that was differentiated, not the layer: see `gradients`.
        """
        if direction == UPDATE:
            return self.optimizer_of(node) or OPTIMIZER
        if direction == FORWARD:
            return self.layer_of(node) or self.forward.get(node.type) or self._primitive(_cause(node))
        if node.gradient_of:
            return self._primitive(node.gradient_of)
        if direction == BACKWARD and node.type in self.backward:
            return self.backward[node.type]
        cause = _cause(node)
        certain = node.top == "Gradients" or cause in self.anchors or self.backward_type.search(cause)
        return self._primitive(cause) if certain else None

    def layer_of(self, node: Node) -> str | None:
        """Return the innermost layer that a kernel is in."""
        return next((self.layers[cell.kind] for cell in reversed(node.cells) if cell.kind in self.layers), None)

    def _primitive(self, name: str) -> str | None:
        return self.kernel.get(name.removesuffix("Grad")) or self.kernel.get(name)

    def optimizer_of(self, node: Node) -> str | None:
        """Return the optimizer whose Cell a kernel is in, or whose kernel it is."""
        for cell in node.cells:
            if cell.kind in self.optimizer or cell.attribute == "optimizer":
                return self.optimizer.get(cell.kind, OPTIMIZER)
        return self.kernel.get(node.type, OPTIMIZER) if self.update_type.search(node.type) else None

    def _nearest(self, bases: Sequence[str], known: Mapping[str, str]) -> str | None:
        return next((known[name] for name in bases if name in known), None)


def _cause(node: Node) -> str:
    return node.expanded_from or node.type


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
