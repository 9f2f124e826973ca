"""Answers questions about canonical/ops.toml: the operator of an event, of an autograd node and of an optimizer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from unified_profiler.spi.canonical import CanonicalTables, OperatorNames, load_canonical

FORWARD, BACKWARD, UPDATE, RECOMPUTE = range(4)
"""Indices into `spi.canonical.DIRECTIONS`."""

LAYER = "keras.layers."
"""What the name of an annotation around a layer of Keras begins with; the class of the layer follows."""

RECOMPUTATION = "torch.utils.checkpoint.recompute"
"""The name of an annotation around what a checkpoint computes again in the backward pass."""

_ENDING = re.compile(r"(?<=.)_?(?:backward|forward|copy)(?:_\w+)?$")
_BEGINNING = re.compile(r"^(?:native|foreach|special|cudnn|miopen|mkldnn|mps|slow)_?")


class Lookup:
    """The whole file.

    Attributes:
        beside: Changes of layout that belong to an operator which they directly precede or follow.
        activations: Operators that stay what they are in a layer of which they are an argument.
        with_activation: Operators whose layers have an activation as an argument.
    """

    def __init__(self, tables: CanonicalTables) -> None:
        self.beside = tables.more["beside"].by_operator
        self.activations = tables.lists["activations"]
        self.with_activation = tables.lists["layers_with_activation"]
        self._tables = tables
        self._patterns = tables.patterns
        others = tables.more["node"]
        sections = (tables.kernel, tables.function, others)
        self._nodes = {_squashed(name): op for section in sections for name, op in section.operators.items()}
        self._other_nodes = frozenset(map(_squashed, others.operators))

    def kernel(self, name: str) -> str | None:
        """Return what an event is by itself."""
        return _find(self._tables.kernel, name) or self.function(name)

    def function(self, name: str) -> str | None:
        """Return what an event is that is the origin of everything inside."""
        return _find(self._tables.function, name)

    def layer(self, name: str) -> str | None:
        """Return what a layer is, by the name of the annotation around it."""
        return self._tables.layer.operators.get(name.removeprefix(LAYER)) if name.startswith(LAYER) else None

    def marks(self, name: str) -> tuple[int, str | None] | None:
        """Return direction and operator of a name that begins something else than forward work."""
        if found := self._patterns["backward"].match(name):
            return BACKWARD, next(
                (self._nodes[form] for form in forms_of(_node(found["node"])) if form in self._nodes), None
            )
        if found := self._patterns["update"].match(name):
            return UPDATE, _find(self._tables.optimizer, found["class"])
        if self._patterns["recompute"].match(name):
            return RECOMPUTE, None
        if self._patterns["scaling"].match(name):
            return UPDATE, self.kernel(name)
        return (UPDATE, "x:ZeroGrad") if self._patterns["zero_grad"].match(name) else None

    def stem(self, name: str) -> str | None:
        """Return what the name of an operator and that of its gradient's node share; None for nodes of any operator."""
        found = self._patterns["backward"].match(name)
        bare = _node(found["node"]) if found else _squashed(name.removeprefix("aten::"))
        return None if found and bare in self._other_nodes else _ENDING.sub("", bare)


@cache
def lookup() -> Lookup:
    """Read the file, once."""
    return Lookup(load_canonical("unified_profiler_torch"))


def _find(section: OperatorNames, name: str) -> str | None:
    return section.find(*forms_of(name))


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
