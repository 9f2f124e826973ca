"""Assigns canonical operators to TensorFlow nodes: what each is (`op`), what caused it (`origin`), and its direction.

The operator follows from the type of a node; origin and direction follow from its path, which consists of the scopes of
layers, losses and optimizers. The names are in canonical/ops.toml.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from unified_profiler.spi.canonical import BACKWARD, FORWARD, UPDATE
from unified_profiler_tensorflow.canonical.live_names import NO_LIVE_NAMES, LiveNames
from unified_profiler_tensorflow.canonical.path import NodePath
from unified_profiler_tensorflow.canonical.table import table
from unified_profiler_tensorflow.read.live_objects import INPUT, METRIC, OPTIMIZER, TAPE, UNSURE

_GRADIENT_SUM = re.compile(r"AddN(_\d+)*$")
_UPDATE_TYPE = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]")
_CREATOR_OPS = {METRIC: "x:Metric", INPUT: "x:DataLoad"}


@dataclass(frozen=True)
class Canonical:
    """Operator, origin and direction of a node; None where unknown."""

    op: str | None
    origin: str | None
    direction: str | None


def lookup(node: str | None, op_type: str, live: LiveNames = NO_LIVE_NAMES) -> Canonical:
    """Return operator, origin and direction of a node. Not cached: call it once per distinct node.

    The gradient of an embedding is summed in the scope of the optimizer, which is the first to need it; its type
    ([gradients_in_update] in canonical/ops.toml) identifies it as a gradient.

    Args:
        node: The name of the node, a path; None if it has none (eager operators, XLA). Then only the operator is known,
            except for types that determine everything: input loading, updates.
        op_type: The type of the node, or the name of an HLO instruction.
        live: Names of live layers, losses and optimizers. They take precedence over default names.
    """
    if node is None:
        return _by_type(table().kernel(op_type), op_type)
    return lookup_path(NodePath(node, live), op_type)


def lookup_path(path: NodePath, op_type: str) -> Canonical:
    """Return operator, origin and direction of a node by its path; see `lookup`."""
    op = table().kernel(op_type) or path.last_of_composition
    if path.is_gradient:
        return Canonical(op, path.origin(op), BACKWARD)
    if op_type in table().gradients_in_update and path.optimizer:
        return Canonical(op, op, BACKWARD)
    return _update(op, op_type, path) or _forward(op, path)


def layer_scope(node: str, live: LiveNames = NO_LIVE_NAMES) -> str | None:
    """Return the scope of the layer or loss that a forward or backward node belongs to; None outside of layers.

    If no scope is a known layer, the scopes that enclose the operator are taken as the layer.
    """
    path = NodePath(node, live)
    layer = layer_of(path)
    return None if layer is None else "/".join(path.parts[layer])


def layer_of(path: NodePath) -> slice | None:
    """Return which parts of a path are the scope of its layer or loss; see `layer_scope`."""
    return path.layer() if path.is_gradient or not path.optimizer else None


def _by_type(op: str | None, op_type: str) -> Canonical:
    if op in table().standalone:
        return Canonical(op, op, FORWARD)
    return Canonical(op, op, UPDATE) if _UPDATE_TYPE.match(op_type) else Canonical(op, None, None)


def _update(op: str | None, op_type: str, path: NodePath) -> Canonical | None:
    """Classify a node that updates variables; return None for others."""
    optimizer = path.optimizer
    if optimizer and not optimizer.certain:
        return Canonical(op, None, None)
    if optimizer:
        return Canonical(op, optimizer.update, UPDATE)
    if _UPDATE_TYPE.match(op_type):
        return Canonical(op, op, UPDATE)
    return Canonical(op, path.live.update, UPDATE) if path.creator == OPTIMIZER else None


def _forward(op: str | None, path: NodePath) -> Canonical:
    """Classify a forward node, or one without a gradient scope that sums gradients."""
    if origin := _CREATOR_OPS.get(path.creator or ""):
        return Canonical(op, origin, FORWARD)
    if _GRADIENT_SUM.match(path.text):
        return Canonical(op, path.origin(op), BACKWARD)
    if path.creator == TAPE:  # a custom gradient: its function is unknown
        return Canonical(op, None, BACKWARD)
    return Canonical(op, None, None) if path.creator == UNSURE else Canonical(op, path.origin(op), FORWARD)
