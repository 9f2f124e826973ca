"""Parses kernel names: the kernel's type, the Cells it belongs to, and how graph compilation changed it.

MatMul                                                        PyNative
Default/Conv2D-op0                                            PyNative, or a graph without Cells
Default/network-WithLossCell/_backbone-Net/fc-Dense/MatMul-op0
Gradients/Default/network-WithLossCell/.../Grad_MatMul/MatMul-op1
Expand/_SoftmaxBackward/Mul-op3                               part of an expanded operator
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

_NUMBER = re.compile(r"-op(\d+)$")
_CELL = re.compile(r"(?P<attribute>.+)-(?P<kind>[A-Za-z_]\w*)")


class Cell(NamedTuple):
    """A Cell in the path: the attribute that holds it, and its class."""

    attribute: str
    kind: str


@dataclass(frozen=True)
class Node:
    """A parsed kernel name."""

    type: str
    cells: tuple[Cell, ...] = ()
    top: str = ""
    """First part of the path: Default, Gradients, Expand..., or empty for a bare name."""
    gradient_of: str | None = None
    """The primitive whose gradient contains this kernel."""
    expanded_from: str | None = None
    """The primitive that was expanded into this kernel and others."""
    number: int = 0
    """Number among the kernels of the same path and type."""
    in_graph: bool = False
    """Whether the kernel was located in a recorded graph, so that the path is that of the graph."""
    in_update: bool = False
    """Whether the graph shows that it does nothing but update parameters."""

    @property
    def primitive(self) -> str:
        """The primitive in the source program: the expanded one for a part."""
        return self.expanded_from or self.type

    @property
    def is_unscoped(self) -> bool:
        """Whether it is in a graph, or seems to be, without a Cell that indicates its purpose."""
        return self.top == "Default" and not self.cells

    @property
    def module(self) -> str | None:
        """Path in the network; None for gradients, which MindSpore merges across layers of one kind."""
        if not self.cells or self.top != "Default":
            return None
        return ".".join(cell.attribute for cell in self.cells)


def parse(name: str) -> Node:
    """Parse a kernel name."""
    *path, last = name.split("/")
    numbered = _NUMBER.search(last)
    kernel_type, number = (last[: numbered.start()], int(numbered[1])) if numbered else (last, 0)
    if not path:
        return Node(kernel_type, number=number)
    gradients = [part.removeprefix("Grad_") for part in path if part.startswith("Grad_")]
    return Node(
        type=kernel_type,
        cells=tuple(Cell(**match.groupdict()) for match in map(_CELL.fullmatch, path) if match),
        top=path[0],
        gradient_of=gradients[-1] if gradients else None,
        expanded_from=path[1].removeprefix("_") if path[0] == "Expand" and len(path) > 1 else None,
        number=number,
    )
