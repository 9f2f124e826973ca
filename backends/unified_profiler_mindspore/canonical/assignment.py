"""Canonical operators of MindSpore's kernels: what each is (`op`), what caused it (`origin`) and in which direction.

Names are looked up once per distinct name in canonical/ops.toml. What a name does not tell, the order of launches may
(`order.py`); what neither tells for certain stays null.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from unified_profiler_mindspore.canonical.kernel_names import Node

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"

OPTIMIZER = "x:Optimizer"
"""An optimizer that ONNX does not know, or that is not known here."""


@dataclass(frozen=True)
class Lookup:
    """The whole file, ready to be asked."""

    kernel: Mapping[str, str]
    forward: Mapping[str, str]
    backward: Mapping[str, str]
    composite: Mapping[str, str]
    optimizer: Mapping[str, str]
    anchors: frozenset[str]
    backward_type: re.Pattern[str]
    update_type: re.Pattern[str]

    def knowing(self, bases: Mapping[str, Sequence[str]]) -> Lookup:
        """Return what also knows classes of the program, given the names of their bases."""
        optimizers = {
            name: self._nearest(of, self.optimizer) or OPTIMIZER for name, of in bases.items() if "Optimizer" in of
        }
        layers = {name: layer for name, of in bases.items() if (layer := self._nearest(of, self.composite))}
        return replace(self, optimizer=optimizers | dict(self.optimizer), composite=layers | dict(self.composite))

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
        return next((self.composite[cell.kind] for cell in reversed(node.cells) if cell.kind in self.composite), None)

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
    text = (files("unified_profiler_mindspore") / "canonical" / "ops.toml").read_text(encoding="utf-8")
    sections: dict[str, dict[str, Any]] = tomllib.loads(text)
    return Lookup(
        kernel=_by_name(sections["kernel"]),
        forward=sections["forward"],
        backward=sections["backward"],
        composite=_by_name(sections["composite"]),
        optimizer=_by_name(sections["optimizer"]),
        anchors=frozenset(sections["anchors"]["primitives"]),
        **{name: re.compile(pattern) for name, pattern in sections["direction"].items()},
    )


def _by_name(names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {name: operator for operator, some in names.items() for name in some}
