"""Looks up the canonical operator of an event, autograd node, layer or optimizer by name in canonical/ops.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from unified_profiler.spi.canonical import CanonicalTables, OperatorNames, load_canonical

FORWARD, BACKWARD, UPDATE, RECOMPUTE = range(4)
"""Indices into `spi.canonical.DIRECTIONS`."""

LAYER = "keras.layers."
"""Prefix of the annotation around a Keras layer; the class of the layer follows."""

RECOMPUTATION = "torch.utils.checkpoint.recompute"
"""Name of the annotation around a checkpoint's recomputation in the backward pass."""

_SUFFIX = re.compile(r"(?<=.)_?(?:backward|forward|copy)(?:_\w+)?$")
_PREFIX = re.compile(r"^(?:native|foreach|special|cudnn|miopen|mkldnn|mps|slow)_?")


class Lookup:
    """The contents of canonical/ops.toml.

    Attributes:
        adjacent: By operator, the reshapes and transposes that belong to it where they directly precede or follow it.
        activations: Activations, which keep their own origin in a layer that takes them as an argument.
        with_activation: Operators whose layers take an activation as an argument.
    """

    def __init__(self, tables: CanonicalTables) -> None:
        self.adjacent = tables.more["adjacent"].by_operator
        self.activations = tables.lists["activations"]
        self.with_activation = tables.lists["layers_with_activation"]
        self._tables = tables
        self._patterns = tables.patterns
        special = tables.more["node"]
        sections = (tables.kernel, tables.function, special)
        self._nodes = {_squash(name): op for section in sections for name, op in section.operators.items()}
        self._special_nodes = frozenset(map(_squash, special.operators))

    def kernel(self, name: str) -> str | None:
        """Return the operator that an event itself executes."""
        return _find(self._tables.kernel, name) or self.function(name)

    def function(self, name: str) -> str | None:
        """Return the operator of an event that is the origin of all events inside it."""
        return _find(self._tables.function, name)

    def layer(self, name: str) -> str | None:
        """Return the operator of a layer, by the name of the annotation around it."""
        return self._tables.layer.operators.get(name.removeprefix(LAYER)) if name.startswith(LAYER) else None

    def marker(self, name: str) -> tuple[int, str | None] | None:
        """Return direction and operator of an event that contains backward, update or recomputed work, else None."""
        if match := self._patterns["backward"].match(name):
            return BACKWARD, next(filter(None, map(self._nodes.get, forms_of(_node(match["node"])))), None)
        if match := self._patterns["update"].match(name):
            return UPDATE, _find(self._tables.optimizer, match["class"])
        if self._patterns["recompute"].match(name):
            return RECOMPUTE, None
        if self._patterns["scaling"].match(name):
            return UPDATE, self.kernel(name)
        return (UPDATE, "x:ZeroGrad") if self._patterns["zero_grad"].match(name) else None

    def stem(self, name: str) -> str | None:
        """Return the part that an operator's name shares with its autograd node; None for nodes of any operator."""
        match = self._patterns["backward"].match(name)
        bare = _node(match["node"]) if match else _squash(name.removeprefix("aten::"))
        return None if match and bare in self._special_nodes else _SUFFIX.sub("", bare)


@cache
def lookup() -> Lookup:
    """Return the table, which is read once."""
    return Lookup(load_canonical("unified_profiler_torch"))


def _find(section: OperatorNames, name: str) -> str | None:
    return section.find(*forms_of(name))


def forms_of(name: str) -> Iterator[str]:
    """Yield a name, then the name without the prefixes and suffixes of operator variants."""
    yield (bare := name.removeprefix("aten::"))
    yield (bare := bare.strip("_"))
    yield (bare := _SUFFIX.sub("", bare))
    yield _PREFIX.sub("", bare)


def _node(name: str) -> str:
    """Return `maxpool2dwithindices` for `MaxPool2DWithIndicesBackward0`."""
    return _squash(re.sub(r"Backward\d*$", "", name.rpartition("::")[2]))


def _squash(name: str) -> str:
    return name.replace("_", "").lower()
