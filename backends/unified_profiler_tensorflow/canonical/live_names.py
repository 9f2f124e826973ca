"""Maps scope names to the classes of the live layers, losses and optimizers that the scopes are named after."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from unified_profiler_tensorflow.canonical.table import snake_case, table
from unified_profiler_tensorflow.read.live_objects import OPTIMIZER, LiveObjects

_NUMBER_SUFFIX = re.compile(r"_\d+$")
"""The suffix that TensorFlow appends to the name of a layer to make a scope unique."""


@dataclass(frozen=True)
class ScopeObject:
    """The object that a scope is named after.

    Attributes:
        class_name: Its class, in the spelling of scopes; empty for optimizers.
        update: The operator of an optimizer, None for layers and losses.
        certain: False where objects of different classes share the name, so that the class is unknown.
    """

    class_name: str = ""
    update: str | None = None
    certain: bool = True


@dataclass(frozen=True)
class LiveNames:
    """The names of the objects that were alive when recording ended; empty if none were recorded."""

    names: Mapping[str, ScopeObject] = field(default_factory=lambda: MappingProxyType({}))
    roots: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Kind of the object that created a node without a scope."""
    gradients: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Type of the forward node that a node in a gradient belongs to."""
    update: str = "x:Optimizer"
    """The operator of all optimizers, if they share one."""

    @classmethod
    def of(cls, objects: LiveObjects) -> LiveNames:
        """Create it from the objects that the recorder saved."""
        names = {name: _scope_object(classes) for name, classes in objects.names.items()}
        updates = {owner.update for owner in names.values() if owner.update}
        return cls(names, objects.roots, objects.gradients, updates.pop() if len(updates) == 1 else "x:Optimizer")

    def get(self, scope: str) -> ScopeObject | None:
        """Return the object of a scope, by the exact name or without the number appended to it."""
        if not self.names:
            return None
        return self.names.get(scope) or self.names.get(_NUMBER_SUFFIX.sub("", scope))


def _scope_object(classes: Sequence[tuple[str, str]]) -> ScopeObject:
    """Merge objects that share a name."""
    objects = [
        ScopeObject(update=table().optimizer_class(name)) if kind == OPTIMIZER else ScopeObject(snake_case(name))
        for kind, name in classes
    ]
    if len(set(map(_meaning, objects))) == 1:
        return objects[0]
    return ScopeObject(update=next((owner.update for owner in objects if owner.update), None), certain=False)


def _meaning(owner: ScopeObject) -> tuple[str | None, ...]:
    """Return everything that is derived from the class."""
    ops, name = table(), owner.class_name
    return owner.update, ops.layer(name, inside=None), ops.activations.get(name), ops.function(name)


NO_LIVE_NAMES = LiveNames()
"""Used where no live objects were saved: only default names identify layers and optimizers."""
