"""Defines the schema column values of an XPlane event, except its lane and times, and the role of the event."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum, auto

import msgspec

from unified_profiler.model.schema import Kind, Layer
from unified_profiler.spi.canonical import BACKWARD, FORWARD, UPDATE
from unified_profiler.spi.xplane.planes import Stats
from unified_profiler.spi.xplane.stats import attributes_json
from unified_profiler_tensorflow.canonical.assignment import Canonical
from unified_profiler_tensorflow.read.node_lookup import NodeLookup

UNKNOWN = Canonical(None, None, None)
_COLLECTIVE = re.compile(r"_?(Collective(Reduce|Gather|Bcast|AllToAll|Permute)|Nccl(All)?(Reduce|Broadcast))\w*")
_TENSOR = re.compile(r"([A-Za-z]\w*)\[([\d,]*)\]")
_INPUT = "x:DataLoad"
ASYNC_START = "ExecutorState::ProcessAsync::Start"
"""The name of the event that starts an asynchronous node."""
_BY_DEFAULT_NAMES = NodeLookup()


class Role(Enum):
    """The function of an event among the events that enclose it or that it encloses."""

    PLAIN = auto()
    NODE = auto()
    """A node of a graph, run by an executor or alone."""
    FRAME = auto()
    """A Python frame."""
    EAGER_CALL = auto()
    """An eager operator or function from its dispatch to its end; it encloses the kernel."""
    EAGER_KERNEL = auto()
    """The kernel of an eager call. Only the call contains the name of the operator or function."""
    ASYNC_START = auto()
    """The start of an asynchronous node, which may lie within an event of the node itself."""
    FETCH = auto()
    """The wait for the next element of a dataset: the work of an asynchronous node, mostly on a thread of its own."""
    EXECUTOR = auto()
    """A section of an executor's work in a loop; its end lies within the next section."""
    SHARED_WORK = auto()
    """The part of an operator's work that is split among threads, in addition to the operator's own event."""
    INSTRUCTION = auto()
    """An instruction of an XLA program."""
    PROGRAM = auto()
    """XLA's executor, which runs the instructions of a program."""
    END_MARK = auto()
    """The end mark of an XLA instruction, an event in the file but not in the table."""


@dataclass(frozen=True)
class EventValues:
    """Schema column values of an event, except its lane and times."""

    name: str
    layer: Layer = Layer.RUNTIME
    kind: Kind = Kind.RUNTIME
    role: Role = Role.PLAIN
    canonical: Canonical = UNKNOWN
    node: str | None = None
    op_type: str | None = None
    module: str | None = None
    step: int | None = None
    device: str | None = None
    """Only if it differs from that of the lane."""
    bytes: int | None = None
    value: int | None = None
    correlation_id: int | None = None
    input_shapes: str | None = None
    input_types: str | None = None
    flops: int | None = None
    attributes: str | None = None

    def as_runtime(self) -> EventValues:
        """Return the same event as a runtime event instead of an operator."""
        return replace(self, kind=Kind.RUNTIME, layer=Layer.RUNTIME, canonical=UNKNOWN, flops=None)

    def as_start(self) -> EventValues:
        """Return the operator as a runtime event under its native name, as its work has an event of its own."""
        name = ASYNC_START if self.role is Role.ASYNC_START else f"{self.node}:{self.op_type}"
        return replace(self.as_runtime(), name=name, role=Role.PLAIN)

    def as_input(self, *, trains: bool) -> EventValues:
        """Return the same operator as one that prepares input.

        Args:
            trains: Whether the pipeline also trains, as the loop over a dataset in a `tf.function` does. Then only
                operators whose own type is that of loading data count as input.
        """
        op = self.canonical.op
        if self.kind is not Kind.OP or (trains and (self.is_training or self.module)):
            return self
        is_input = not trains or op == _INPUT
        return replace(self, canonical=Canonical(op, _INPUT, FORWARD) if is_input else Canonical(op, None, None))

    @property
    def is_training(self) -> bool:
        """Whether it is a part of the backward pass or of an update."""
        return self.canonical.direction in (BACKWARD, UPDATE)

    def as_unfinished(self) -> EventValues:
        """Return the same event as one whose end was not recorded."""
        attributes = msgspec.json.decode(self.attributes or "{}")
        return replace(self, attributes=attributes_json({**attributes, "finished": False}))

    def as_region(self) -> EventValues:
        """Return the same step as a region."""
        return replace(self, kind=Kind.REGION, step=None)


def operator(
    op_type: str,
    node: str | None = None,
    *,
    role: Role = Role.PLAIN,
    stats: Stats | None = None,
    lookup: NodeLookup = _BY_DEFAULT_NAMES,
) -> EventValues:
    """Return an operator: its name is the type of the node; the path of the node is an attribute.

    Args:
        op_type: The type of the node.
        node: The path of the node, None for eager operators.
        role: The role of the event.
        stats: The other stats of the event.
        lookup: Classifies nodes.
    """
    stats = dict(stats or {})
    shapes, types = _pop_shapes(stats)
    return EventValues(
        op_type,
        Layer.FRAMEWORK,
        Kind.COLLECTIVE if _COLLECTIVE.fullmatch(op_type) else Kind.OP,
        role,
        canonical=lookup.canonical(node, op_type),
        node=node,
        op_type=op_type,
        module=lookup.module(node),
        input_shapes=shapes,
        input_types=types,
        flops=lookup.flops(node, op_type, shapes, types),
        attributes=attributes_json(stats if node is None else {"node": node, **stats}),
    )


def _pop_shapes(stats: Stats) -> tuple[str | None, str | None]:
    """Remove `shape` if it has the form `(float[32,3];int32[])`; return it as JSON of the shapes and of the types."""
    shape = stats.get("shape")
    if not isinstance(shape, str) or not (shape.startswith("(") and shape.endswith(")")):
        return None, None
    tensors = [_TENSOR.fullmatch(tensor) for tensor in shape[1:-1].split(";")] if shape != "()" else []
    matches = [tensor for tensor in tensors if tensor]
    if len(matches) < len(tensors):
        return None, None
    del stats["shape"]
    shapes = [[int(size) for size in match[2].split(",") if size] for match in matches]
    return msgspec.json.encode(shapes).decode(), msgspec.json.encode([match[1] for match in matches]).decode()
