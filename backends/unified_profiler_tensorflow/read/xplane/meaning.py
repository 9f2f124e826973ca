"""What an event of an XPlane file is in the event schema: the values of its columns, its place and times aside."""

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
from unified_profiler_tensorflow.read.node_reader import NodeReader
from unified_profiler_tensorflow.read.xplane.attributes import take_shapes

UNKNOWN = Canonical(None, None, None)
_COLLECTIVE = re.compile(r"_?(Collective(Reduce|Gather|Bcast|AllToAll|Permute)|Nccl(All)?(Reduce|Broadcast))\w*")
_INPUT = "x:DataLoad"
_BY_DEFAULT_NAMES = NodeReader()


class Role(Enum):
    """What an event does in the tree of events."""

    PLAIN = auto()
    NODE = auto()
    """A node of a graph, run by an executor or alone."""
    FRAME = auto()
    """A frame of Python."""
    EAGER_CALL = auto()
    """An eager operator, or a function, from its dispatch to its end; it encloses the kernel."""
    EAGER_KERNEL = auto()
    """What an eager call runs: an operator or a function, which only the call tells."""
    ASYNC_START = auto()
    """The beginning of an asynchronous node, which may lie within an event of the node itself."""
    EXECUTOR = auto()
    """A piece of an executor's work; its last moment lies within the next piece."""
    SHARED_WORK = auto()
    """The work of an operator, once more, where it is shared among threads."""
    INSTRUCTION = auto()
    """An instruction of an XLA program."""
    PROGRAM = auto()
    """XLA's executor, which runs instructions of a program."""
    END_MARK = auto()
    """The mark at the end of an instruction, which has an event of its own."""


@dataclass(frozen=True)
class Meaning:
    """What is in the columns of an event, its place and times aside."""

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
    """Only where it is another one than that of the lane."""
    bytes: int | None = None
    value: int | None = None
    correlation_id: int | None = None
    input_shapes: str | None = None
    input_types: str | None = None
    flops: int | None = None
    attributes: str | None = None

    def as_runtime(self) -> Meaning:
        """Return the same event as one that is no operator of its own."""
        return replace(self, kind=Kind.RUNTIME, layer=Layer.RUNTIME, canonical=UNKNOWN, flops=None)

    def as_input(self, *, trains: bool) -> Meaning:
        """Return the same operator as one that prepares input.

        Args:
            trains: Whether the pipeline also trains, as the loop over a dataset in a `tf.function` does: then only the
                scope tells what prepares input, and without one nothing does.
        """
        told = self.canonical
        if self.kind is not Kind.OP or (trains and (self.is_training or self.module)):
            return self
        known = not trains or told.op == _INPUT
        return replace(self, canonical=Canonical(told.op, _INPUT, FORWARD) if known else Canonical(told.op, None, None))

    @property
    def is_training(self) -> bool:
        """Whether it is a part of the backward pass or of an update."""
        return self.canonical.direction in (BACKWARD, UPDATE)

    def as_unfinished(self) -> Meaning:
        """Return the same event as one whose end was not recorded."""
        known = msgspec.json.decode(self.attributes or "{}")
        return replace(self, attributes=attributes_json({**known, "finished": False}))

    def as_region(self) -> Meaning:
        """Return the same step as a mere region."""
        return replace(self, kind=Kind.REGION, step=None)


def operator(
    op_type: str,
    node: str | None = None,
    *,
    role: Role = Role.PLAIN,
    stats: Stats | None = None,
    reader: NodeReader = _BY_DEFAULT_NAMES,
) -> Meaning:
    """Return an operator: its name is the type of the node, whose path is an attribute.

    Args:
        op_type: The type.
        node: The path, None for eager operators.
        role: The role.
        stats: What else TensorFlow says.
        reader: What is known about nodes.
    """
    said = dict(stats or {})
    shapes, types = take_shapes(said)
    return Meaning(
        op_type,
        Layer.FRAMEWORK,
        Kind.COLLECTIVE if _COLLECTIVE.fullmatch(op_type) else Kind.OP,
        role,
        canonical=reader.canonical(node, op_type),
        node=node,
        op_type=op_type,
        module=reader.module(node),
        input_shapes=shapes,
        input_types=types,
        flops=reader.flops(node, op_type, shapes, types),
        attributes=attributes_json(said if node is None else {"node": node, **said}),
    )


def repeated(name: str, stats: Stats) -> Meaning:
    """Return what tools add to the lines of a device: steps, modules, scopes and operators, made of its streams."""
    return Meaning(name, Layer.FRAMEWORK, Kind.REGION, attributes=attributes_json(stats))
