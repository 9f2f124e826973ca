"""Looks up the canonical operator, module and FLOPs of a node by its name and type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from unified_profiler.model.foreign_values import int_or_none
from unified_profiler_tensorflow.canonical import assignment, flops
from unified_profiler_tensorflow.canonical.classifier import Classification, NodeClassifier
from unified_profiler_tensorflow.canonical.live_names import NO_LIVE_NAMES, LiveNames
from unified_profiler_tensorflow.canonical.path import name_in_graph
from unified_profiler_tensorflow.read.live_objects import Details, LiveObjects

_COLUMNS = ("op", "origin", "direction", "module")


@dataclass(frozen=True)
class NodeLookup:
    """Classifies the nodes of one capture, by the live objects of the recorded process where these are known."""

    live: LiveNames = NO_LIVE_NAMES
    details: Mapping[str, Sequence[Details]] = field(default_factory=lambda: MappingProxyType({}))
    counts_flops: bool = True

    @classmethod
    def of(cls, objects: LiveObjects) -> NodeLookup:
        """Build it from the note that the recorder wrote."""
        return cls(LiveNames.of(objects), objects.nodes, objects.flops)

    def canonical(self, node: str | None, op_type: str) -> assignment.Canonical:
        """Return operator, origin and direction."""
        return assignment.lookup(node, op_type, self.live)

    def module(self, node: str | None) -> str | None:
        """Return the scope of the layer or the loss."""
        return None if node is None else assignment.layer_scope(node, self.live)

    def columns(self, node: str, op_type: str) -> Mapping[str, str | None]:
        """Return the columns `op`, `origin`, `direction` and `module`, none if the type is empty, which is unknown."""
        return dict(zip(_COLUMNS, self.classify(node, op_type), strict=True)) if op_type else {}

    @cached_property
    def classify(self) -> Callable[[str, str], Classification]:
        """Returns operator, origin, direction and module of a node, all None if its type is empty, which is unknown."""
        return NodeClassifier(self.live).classify

    def flops(
        self, node: str | None, op_type: str, shapes: str | None, types: str | None, outputs: str | None = None
    ) -> int | None:
        """Return the floating-point operations; None if they are unknown or were not requested."""
        if not self.counts_flops or shapes is None:
            return None
        details = self.details.get(name_in_graph(node or ""), ())
        return int_or_none(flops.flops_of(op_type, shapes, types, outputs=outputs, details=details))
