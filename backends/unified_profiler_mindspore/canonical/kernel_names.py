"""What the name of a kernel says: its type, the Cells it belongs to, and what became of it when graphs were built.

MatMul                                                        PyNative
Default/Conv2D-op0                                            PyNative, or a graph without Cells
Default/network-WithLossCell/_backbone-Net/fc-Dense/MatMul-op0
Gradients/Default/network-WithLossCell/.../Grad_MatMul/MatMul-op1
Expand/_SoftmaxBackward/Mul-op3                               a piece of an operator that was taken apart
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
    """A kernel's name, taken apart."""

    type: str
    cells: tuple[Cell, ...] = ()
    top: str = ""
    """First part of the path: Default, Gradients, Expand..., or nothing for a bare name."""
    gradient_of: str | None = None
    """The primitive whose gradient this is a part of."""
    expanded_from: str | None = None
    """The primitive that was taken apart into this and others."""
    number: int = 0
    """Number among the kernels of the same path and type."""
    in_graph: bool = False
    """Whether it was found in a graph that ran, so that the path is that of the graph."""
    in_update: bool = False
    """Whether the graph shows that it does nothing but update parameters."""

    @property
    def is_unscoped(self) -> bool:
        """Whether it is in a graph, or seems to be, without any Cell to tell what it is for."""
        return self.top == "Default" and not self.cells

    @property
    def module(self) -> str | None:
        """Where in the network it is; not known for gradients, which MindSpore merges across layers of one kind."""
        if not self.cells or self.top != "Default":
            return None
        return ".".join(cell.attribute for cell in self.cells)


def parse(name: str) -> Node:
    """Take a name apart."""
    *path, last = name.split("/")
    numbered = _NUMBER.search(last)
    kind, number = (last[: numbered.start()], int(numbered[1])) if numbered else (last, 0)
    if not path:
        return Node(kind, number=number)
    cells = [Cell(found["attribute"], found["kind"]) for part in path if (found := _CELL.fullmatch(part))]
    gradients = [part.removeprefix("Grad_") for part in path if part.startswith("Grad_")]
    expanded = path[1].removeprefix("_") if path[0] == "Expand" and len(path) > 1 else None
    return Node(
        type=kind,
        cells=tuple(cells),
        top=path[0],
        gradient_of=gradients[-1] if gradients else None,
        expanded_from=expanded,
        number=number,
    )
