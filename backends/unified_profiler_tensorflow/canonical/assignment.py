"""Canonical operators of TensorFlow nodes: what each is (`op`), what caused it (`origin`) and in which direction.

The type of a node tells what it is; its path, made of the scopes of layers, losses and optimizers, tells the rest.
The names are in canonical/ops.toml.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from unified_profiler.spi.canonical import BACKWARD, FORWARD, UPDATE
from unified_profiler_tensorflow.canonical.live_names import NOTHING, Live
from unified_profiler_tensorflow.canonical.path import GRADIENT, NodePath
from unified_profiler_tensorflow.canonical.table import table
from unified_profiler_tensorflow.read.live_objects import INPUT, METRIC, OPTIMIZER, TAPE, UNSURE

_GRADIENT_SUM = re.compile(r"AddN(_\d+)*$")
_UPDATE_TYPE = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]")
_MADE_BY = {METRIC: "x:Metric", INPUT: "x:DataLoad"}


@dataclass(frozen=True)
class Canonical:
    """What is known about a node; None for what is not."""

    op: str | None
    origin: str | None
    direction: str | None


def lookup(node: str | None, op_type: str, live: Live = NOTHING) -> Canonical:
    """Find operator, origin and direction of a node. Not cached: ask once for each distinct node.

    The gradient of an embedding is summed up in the scope of the optimizer, which is the first to need it; it counts as
    the gradient that it is, told by its type ([gradients_in_update] in canonical/ops.toml).

    Args:
        node: The name of the node, a path; None where there is none (eager operators, XLA). Then only the operator can
            be told, unless the type alone tells everything: loading of input, updates.
        op_type: The type of the node, or the name of an HLO instruction.
        live: Names of live layers, losses and optimizers. They come before what the default names tell.
    """
    op = table().kernel(op_type)
    if node is None:
        return _by_type(op, op_type)
    path = NodePath(node, live)
    op = op or path.last_of_composition
    if GRADIENT.search(node):
        return Canonical(op, path.origin(op), BACKWARD)
    if op_type in table().gradients_in_update and path.optimizer:
        return Canonical(op, op, BACKWARD)
    return _update(op, op_type, path) or _forward(op, path)


def layer_scope(node: str, live: Live = NOTHING) -> str | None:
    """Return the scope of the layer, or the loss, that a node belongs to, backward as forward; None outside of them.

    Where no scope is one of a known layer, whatever encloses the operator is taken for one.
    """
    path = NodePath(node, live)
    return path.layer_scope() if GRADIENT.search(node) or not path.optimizer else None


def _by_type(op: str | None, op_type: str) -> Canonical:
    if op in table().standalone:
        return Canonical(op, op, FORWARD)
    return Canonical(op, op, UPDATE) if _UPDATE_TYPE.match(op_type) else Canonical(op, None, None)


def _update(op: str | None, op_type: str, path: NodePath) -> Canonical | None:
    """Return what a node is that updates variables; None for those that do not."""
    optimizer = path.optimizer
    if optimizer and not optimizer.sure:
        return Canonical(op, None, None)
    if optimizer:
        return Canonical(op, optimizer.update, UPDATE)
    if _UPDATE_TYPE.match(op_type):
        return Canonical(op, op, UPDATE)
    return Canonical(op, path.live.update, UPDATE) if path.maker == OPTIMIZER else None


def _forward(op: str | None, path: NodePath) -> Canonical:
    """Return what a node is that computes forwards, or sums up gradients, which have no scope there."""
    if made_by := _MADE_BY.get(path.maker or ""):
        return Canonical(op, made_by, FORWARD)
    if _GRADIENT_SUM.match(path.text):
        return Canonical(op, path.origin(op), BACKWARD)
    if path.maker == TAPE:  # a gradient that somebody wrote for a function: which function is not told
        return Canonical(op, None, BACKWARD)
    return Canonical(op, None, None) if path.maker == UNSURE else Canonical(op, path.origin(op), FORWARD)
