"""canonical/ops.toml, ready to be asked: the operator of an event, of an autograd node and of an optimizer."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from importlib.resources import files
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DIRECTIONS = ("forward", "backward", "update", "recompute")
FORWARD, BACKWARD, UPDATE, RECOMPUTE = range(4)

LAYER = "keras.layers."
"""What the name of an annotation around a layer of Keras begins with; the class of the layer follows."""

RECOMPUTATION = "torch.utils.checkpoint.recompute"
"""The name of an annotation around what a checkpoint computes again in the backward pass."""

_ENDING = re.compile(r"(?<=.)_?(?:backward|forward|copy)(?:_\w+)?$")
_BEGINNING = re.compile(r"^(?:native|foreach|special|cudnn|miopen|mkldnn|mps|slow)_?")


class Table:
    """Names and patterns of one section of the file."""

    def __init__(self, section: Mapping[str, Sequence[str]]) -> None:
        self.names = {name: op for op, names in section.items() for name in names}
        self._patterns = [(re.compile(translate(name)), op) for name, op in self.names.items() if set(name) & {*"*?"}]

    def find(self, name: str) -> str | None:
        """Return the operator of a name; an entry for any form of it beats a pattern."""
        forms = tuple(forms_of(name))
        exact = next((self.names[form] for form in forms if form in self.names), None)
        return exact or next((op for pattern, op in self._patterns if any(map(pattern.match, forms))), None)


@dataclass(frozen=True)
class Lookup:
    """The whole file."""

    kernels: Table
    composite: Table
    nodes: Table
    other_nodes: frozenset[str]
    """Nodes that are not called after an operator."""
    optimizer: Table
    layers: Table
    activations: frozenset[str]
    with_activation: frozenset[str]
    """Operators whose layers have an activation as an argument."""
    beside: Mapping[str, Sequence[str]]
    """Changes of layout that belong to an operator which they directly precede or follow."""
    backward: re.Pattern[str]
    update: re.Pattern[str]
    scaling: re.Pattern[str]
    recompute: re.Pattern[str]
    zero_grad: re.Pattern[str]

    def kernel(self, name: str) -> str | None:
        """Return what an event is by itself."""
        return self.kernels.find(name) or self.composite.find(name)

    def layer(self, name: str) -> str | None:
        """Return what a layer is, told by the name of the annotation around it."""
        return self.layers.names.get(name.removeprefix(LAYER)) if name.startswith(LAYER) else None

    def marks(self, name: str) -> tuple[int, str | None] | None:
        """Return direction and operator of a name that begins something else than forward work."""
        if found := self.backward.match(name):
            return BACKWARD, self.nodes.find(_node(found["node"]))
        if found := self.update.match(name):
            return UPDATE, self.optimizer.find(found["class"])
        if self.recompute.match(name):
            return RECOMPUTE, None
        if self.scaling.match(name):
            return UPDATE, self.kernel(name)
        return (UPDATE, "x:ZeroGrad") if self.zero_grad.match(name) else None

    def stem(self, name: str) -> str | None:
        """Return what the name of an operator and that of its gradient's node share; None for nodes of any operator."""
        found = self.backward.match(name)
        bare = _node(found["node"]) if found else _squashed(name.removeprefix("aten::"))
        return None if found and bare in self.other_nodes else _ENDING.sub("", bare)


@cache
def lookup() -> Lookup:
    """Read canonical/ops.toml, once."""
    text = (files("unified_profiler_torch") / "canonical" / "ops.toml").read_text(encoding="utf-8")
    sections: dict[str, dict[str, Any]] = tomllib.loads(text)
    kernels, composite, others = (Table(sections[name]) for name in ("kernel", "composite", "node"))
    nodes = Table({})
    for table in (kernels, composite, others):
        nodes.names.update({_squashed(name): op for name, op in table.names.items()})
    return Lookup(
        kernels=kernels,
        composite=composite,
        nodes=nodes,
        other_nodes=frozenset(map(_squashed, others.names)),
        optimizer=Table(sections["optimizer"]),
        layers=Table(sections["layer"]),
        activations=frozenset(sections["activation"]["operators"]),
        with_activation=frozenset(sections["activation"]["layers"]),
        beside=sections["beside"],
        **{name: re.compile(pattern) for name, pattern in sections["direction"].items()},
    )


def forms_of(name: str) -> Iterator[str]:
    """Yield a name as it is, then without what variants of an operator have around their name."""
    yield (bare := name.removeprefix("aten::"))
    yield (bare := bare.strip("_"))
    yield (ended := _ENDING.sub("", bare))
    yield _BEGINNING.sub("", ended)


def _node(name: str) -> str:
    """Return `maxpool2dwithindices` of `MaxPool2DWithIndicesBackward0`."""
    return _squashed(re.sub(r"Backward\d*$", "", name.rpartition("::")[2]))


def _squashed(name: str) -> str:
    return name.replace("_", "").lower()
