"""What one event of an XPlane file is in the event schema, told from its name and what TensorFlow says about it.

Asked once for each distinct pair of the two. What only the surrounding events tell is in `xplane_mapping`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto

from unified_profiler.model.schema import Kind, Layer
from unified_profiler_tensorflow.canonical import FORWARD, Canonical, layer_scope, lookup
from unified_profiler_tensorflow.xplane import Stats
from unified_profiler_tensorflow.xplane_columns import whole
from unified_profiler_tensorflow.xplane_hlo import Programs, Source
from unified_profiler_tensorflow.xplane_lanes import device_name
from unified_profiler_tensorflow.xplane_left_out import END_MARK
from unified_profiler_tensorflow.xplane_said import attributes_text, take_shapes

_NODE = re.compile(r"([A-Za-z0-9.][A-Za-z0-9_./>-]*):([A-Z_][A-Za-z0-9_]*)")
"""`path:Type`, by the rule of TensorFlow's own tools (tf_op_utils)."""
_FUNCTION = re.compile(r"__(inference|forward|backward)_")
_COLLECTIVE = re.compile(r"_?(Collective(Reduce|Gather|Bcast|AllToAll|Permute)|Nccl(All)?(Reduce|Broadcast))\w*")
_COLLECTIVE_KERNEL = re.compile(r"(nccl|rccl)\w*Kernel", re.IGNORECASE)
_COPY = re.compile(r"mem(cpy|set)", re.IGNORECASE)
_EAGER_CALL = "EagerLocalExecute: "
_EAGER_KERNEL = "KernelAndDeviceFunc::Run"
_ASYNC_START = "ExecutorState::ProcessAsync::Start"
_EXECUTOR = "ExecutorState::Process"
_SHARED_WORK = "ParallelFor"
_DEVICE_ALLOCATOR = re.compile(r"(GPU|TPU)_(\d+)_")
_MEMORY = {"MemoryAllocation": 1, "MemoryDeallocation": -1}
_UNKNOWN = Canonical(None, None, None)
_INPUT = "x:DataLoad"
_LARGEST_STEP = (1 << 31) - 1


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
    LEFT_OUT = auto()


@dataclass(frozen=True)
class Meaning:
    """What is in the columns of an event, its place and times aside."""

    name: str
    layer: Layer = Layer.RUNTIME
    kind: Kind = Kind.RUNTIME
    role: Role = Role.PLAIN
    canonical: Canonical = _UNKNOWN
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
    attributes: str | None = None

    def as_runtime(self) -> Meaning:
        """Return the same event as one that is no operator of its own."""
        return replace(self, kind=Kind.RUNTIME, layer=Layer.RUNTIME, canonical=_UNKNOWN)

    def as_input(self) -> Meaning:
        """Return the same operator as one that prepares input."""
        if self.kind is not Kind.OP:
            return self
        return replace(self, canonical=replace(self.canonical, origin=_INPUT, direction=FORWARD))

    def as_region(self) -> Meaning:
        """Return the same step as a mere region."""
        return replace(self, kind=Kind.REGION, step=None)


def operator(op_type: str, node: str | None = None, *, role: Role = Role.PLAIN, stats: Stats | None = None) -> Meaning:
    """Return an operator: its name is the type of the node, whose path is an attribute.

    Args:
        op_type: The type.
        node: The path, None for eager operators.
        role: The role.
        stats: What else TensorFlow says.
    """
    said = dict(stats or {})
    shapes, types = take_shapes(said)
    return Meaning(
        op_type,
        Layer.FRAMEWORK,
        Kind.COLLECTIVE if _COLLECTIVE.fullmatch(op_type) else Kind.OP,
        role,
        canonical=lookup(node, op_type),
        node=node,
        op_type=op_type,
        module=None if node is None else layer_scope(node),
        input_shapes=shapes,
        input_types=types,
        attributes=attributes_text(said if node is None else {"node": node, **said}),
    )


def repeated(name: str, stats: Stats) -> Meaning:
    """Return what tools add to the lines of a device: steps, modules, scopes and operators, made of its streams."""
    return Meaning(name, Layer.FRAMEWORK, Kind.REGION, attributes=attributes_text(stats))


@dataclass(frozen=True)
class Describer:
    """Says what the events of one file mean."""

    programs: Programs
    functions: frozenset[str]
    """Names of functions, which are run as if they were operators."""
    instructions: frozenset[str]
    """Names of XLA's instructions."""

    @classmethod
    def of(cls, programs: Programs, every_stats: Iterable[Stats]) -> Describer:
        """Learn from all that is said in a file which names are those of functions and instructions."""
        functions, instructions = set(), set()
        for stats in every_stats:
            if stats.get("is_func"):
                functions.add(str(stats.get("eager_op")))
            if "hlo_op" in stats:
                instructions.add(str(stats["hlo_op"]))
        return cls(programs, frozenset(functions), frozenset(instructions))

    def on_host(self, name: str, stats: Stats) -> Meaning:
        """Describe an event of a thread."""
        said = dict(stats)
        if name.startswith("$"):
            return Meaning(name, role=Role.FRAME, attributes=attributes_text(said))
        if name.startswith(END_MARK) and name.removeprefix(END_MARK) in self.instructions:
            return Meaning(name, role=Role.LEFT_OUT)
        if "hlo_op" in said:
            return self._instruction(name, said)
        if "step_num" in said or "tf_function_call" in said:
            return _annotation(name, said)
        if name in _MEMORY:
            return _memory(name, said)
        if name == _ASYNC_START and "kernel_type" in said:
            return operator(str(said.pop("kernel_type")), str(said.pop("name", "")), role=Role.ASYNC_START, stats=said)
        node = _NODE.fullmatch(name)
        if node and not self._is_function(node[2]):
            return operator(node[2], node[1], role=Role.NODE, stats=said)
        return self._runtime(name, said)

    def on_stream(self, name: str, stats: Stats) -> Meaning:
        """Describe an event of a stream of an accelerator."""
        said = dict(stats)
        correlation = whole(said.pop("correlation_id", None))
        node = _NODE.fullmatch(str(said.get("tf_op") or said.get("name") or ""))
        source = self._source(said)
        if node:
            canonical, path = lookup(node[1], node[2]), node[1]
        elif source:
            canonical, path = lookup(*source), source.node
        else:
            canonical, path = _UNKNOWN, None
        return Meaning(
            name,
            kind=_device_kind(name, said),
            canonical=canonical,
            module=None if path is None else layer_scope(path),
            correlation_id=correlation,
            attributes=attributes_text(said),
        )

    def _instruction(self, name: str, said: Stats) -> Meaning:
        """Describe a piece of an XLA program, an operator like any other: there is none but these in the program."""
        source = self._source(said)
        canonical = lookup(*source) if source else lookup(None, name)
        if canonical.op is None:
            canonical = replace(canonical, op=lookup(None, name).op)
        known = {"node": source.node, "op_type": source.op_type} if source else {}
        return Meaning(
            name,
            Layer.FRAMEWORK,
            Kind.OP,
            canonical=canonical,
            node=source.node if source else None,
            op_type=source.op_type if source else None,
            module=layer_scope(source.node) if source else None,
            attributes=attributes_text(known | said),
        )

    def _source(self, said: Stats) -> Source | None:
        if "hlo_op" not in said:
            return None
        return self.programs.source(said.get("hlo_module"), said.get("program_id"), str(said["hlo_op"]))

    def _runtime(self, name: str, said: Stats) -> Meaning:
        role, op_type = Role.PLAIN, None
        if name.startswith(_EAGER_CALL):
            called = name.removeprefix(_EAGER_CALL)
            role, op_type = Role.EAGER_CALL, None if self._is_function(called) else called
        elif name == _EAGER_KERNEL:
            role = Role.EAGER_KERNEL
        elif name == _EXECUTOR:
            role = Role.EXECUTOR
        elif name.startswith(_SHARED_WORK):
            role = Role.SHARED_WORK
        correlation = whole(said.pop("correlation_id", None))
        return Meaning(name, role=role, op_type=op_type, correlation_id=correlation, attributes=attributes_text(said))

    def _is_function(self, op_type: str) -> bool:
        return op_type in self.functions or _FUNCTION.match(op_type) is not None


def _annotation(name: str, said: Stats) -> Meaning:
    """Describe a step, which says its number, or the call of a `tf.function`, which has the user's name for it.

    The time of such a call is mostly that of waiting for operators on other threads, so that it is none itself.
    """
    step = said.get("step_num")
    if isinstance(step, int) and 0 <= step <= _LARGEST_STEP:
        said.pop("step_num")
        return Meaning(name, Layer.APPLICATION, Kind.STEP, step=step, attributes=attributes_text(said))
    return Meaning(name, Layer.APPLICATION, Kind.REGION, attributes=attributes_text(said))


def _memory(name: str, said: Stats) -> Meaning:
    size, total = whole(said.pop("allocation_bytes", None)), whole(said.pop("bytes_allocated", None))
    allocator = _DEVICE_ALLOCATOR.match(str(said.get("allocator_name")))
    return Meaning(
        name,
        kind=Kind.MEMORY,
        device=device_name(allocator[1], int(allocator[2])) if allocator else None,
        bytes=None if size is None else size * _MEMORY[name],
        value=total,
        attributes=attributes_text(said),
    )


def _device_kind(name: str, said: Stats) -> Kind:
    if _COLLECTIVE_KERNEL.match(name):
        return Kind.COLLECTIVE
    is_copy = "memcpy_details" in said or "memset_details" in said or _COPY.match(name)
    return Kind.COPY if is_copy else Kind.KERNEL
