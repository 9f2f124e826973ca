"""Names of live objects, as far as they tell what a scope is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from unified_profiler_tensorflow.canonical.table import snake_case, table
from unified_profiler_tensorflow.read.live_objects import OPTIMIZER, LiveObjects

_LAST_NUMBER = re.compile(r"_\d+$")
"""What TensorFlow appends to the name of a layer to make a scope that is not there yet."""


@dataclass(frozen=True)
class Known:
    """What is known about the object that a scope is named after.

    Attributes:
        scope: Its class, in the spelling of scopes.
        update: The operator of an optimizer, None for layers and losses.
        sure: False where objects of different classes share the name: it is one of them, but which is not known.
    """

    scope: str = ""
    update: str | None = None
    sure: bool = True


@dataclass(frozen=True)
class Live:
    """The names of objects that were alive, and what they stand for."""

    names: Mapping[str, Known] = field(default_factory=lambda: MappingProxyType({}))
    roots: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Sort of the object that made a node without a scope."""
    gradients: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Type of the node whose gradient a node is a part of."""
    update: str = "x:Optimizer"
    """The operator of all optimizers, where they have one in common."""

    @classmethod
    def of(cls, objects: LiveObjects) -> Live:
        """Make it from what the recorder noted."""
        names = {name: _known(classes) for name, classes in objects.names.items()}
        updates = {known.update for known in names.values() if known.update}
        return cls(names, objects.roots, objects.gradients, updates.pop() if len(updates) == 1 else "x:Optimizer")

    def get(self, scope: str) -> Known | None:
        """Return what is known about the object of a scope: of its very name, or of that with a number appended."""
        return self.names.get(scope) or self.names.get(_LAST_NUMBER.sub("", scope))


def _known(classes: Sequence[tuple[str, str]]) -> Known:
    """Return what objects of one name have in common."""
    found = [_of_class(sort, name) for sort, name in classes]
    if len({_meaning(known) for known in found}) == 1:
        return found[0]
    return Known(update=next((known.update for known in found if known.update), None), sure=False)


def _of_class(sort: str, name: str) -> Known:
    if sort == OPTIMIZER:
        return Known(update=table().optimizer_class(name))
    return Known(scope=snake_case(name))


def _meaning(known: Known) -> tuple[str | None, ...]:
    """Return all that the name of the class decides."""
    asked, scope = table(), known.scope
    return known.update, asked.layer(scope, inside=None), asked.activations.get(scope), asked.function(scope)


NOTHING = Live()
"""Where nobody noted what was alive: the default names tell what they can."""
