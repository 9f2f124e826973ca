"""Canonical operators of MindSpore's kernels: what each is (`op`), what caused it (`origin`) and in which direction.

Names are looked up once per distinct name in canonical_ops.toml. What a name does not tell, the order of launches may
(`order.py`); what neither tells for certain stays null.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from unified_profiler_mindspore.nodes import Node

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"


@dataclass(frozen=True)
class Lookup:
    """The whole file, ready to be asked."""

    kernel: Mapping[str, str]
    composite: Mapping[str, str]
    optimizer: Mapping[str, str]
    anchors: frozenset[str]
    backward_type: re.Pattern[str]
    update_type: re.Pattern[str]

    def op(self, node: Node) -> str | None:
        """Return the operator of the kernel itself."""
        return self.kernel.get(node.type)

    def direction(self, node: Node) -> str | None:
        """Return the direction, where the name tells it."""
        if node.top == "Gradients":
            return BACKWARD
        if self.update_type.search(node.type) or self._optimizer_of(node) is not None:
            return UPDATE
        if node.cells:
            return FORWARD
        by_type = self.backward_type.search(node.expanded_from or node.type)
        return BACKWARD if by_type else None

    def origin(self, node: Node, direction: str | None) -> str | None:
        """Return the operator of what caused the kernel, given its direction."""
        if direction == UPDATE:
            return self._optimizer_of(node) or self.op(node) or "x:Optimizer"
        cause = node.gradient_of or node.expanded_from or node.type
        layer = next((self.composite[cell.kind] for cell in reversed(node.cells) if cell.kind in self.composite), None)
        if layer is not None and (direction == FORWARD or cause in self.anchors):
            return layer
        of_gradient = self.backward_type.search(cause)
        certain = direction == FORWARD or node.top == "Gradients" or cause in self.anchors or of_gradient
        return (self.kernel.get(cause.removesuffix("Grad")) or self.kernel.get(cause)) if certain else None

    def _optimizer_of(self, node: Node) -> str | None:
        """Return the optimizer whose Cell a kernel is in."""
        for cell in node.cells:
            if cell.kind in self.optimizer or cell.attribute == "optimizer":
                return self.optimizer.get(cell.kind, "x:Optimizer")
        return None


@cache
def lookup() -> Lookup:
    """Read canonical_ops.toml, once."""
    text = (files("unified_profiler_mindspore") / "canonical_ops.toml").read_text(encoding="utf-8")
    sections: dict[str, dict[str, Any]] = tomllib.loads(text)
    return Lookup(
        kernel=sections["kernel"],
        composite=sections["composite"],
        optimizer=sections["optimizer"],
        anchors=frozenset(sections["anchors"]["primitives"]),
        **{name: re.compile(pattern) for name, pattern in sections["direction"].items()},
    )
