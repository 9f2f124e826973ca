"""Converts the name and stats of an XPlane event to schema column values, once for each distinct pair of the two.

Corrections that depend on the surrounding events are in `columns`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from unified_profiler.model.foreign_values import LARGEST_NUMBER, int_or_none
from unified_profiler.model.nesting import FIRST_LANE
from unified_profiler.model.schema import Kind, Layer
from unified_profiler.spi.xplane.ends import END_MARK
from unified_profiler.spi.xplane.events import EventDescription
from unified_profiler.spi.xplane.hlo import Instruction, Programs
from unified_profiler.spi.xplane.lanes import LaneKind, XPlaneLane, device_name
from unified_profiler.spi.xplane.planes import Stats
from unified_profiler.spi.xplane.stats import attributes_json
from unified_profiler_tensorflow.read.node_lookup import NodeLookup
from unified_profiler_tensorflow.read.xplane.values import ASYNC_START, UNKNOWN, EventValues, Role, operator

NODE = re.compile(r"([A-Za-z0-9.][A-Za-z0-9_./>-]*):([A-Z_][A-Za-z0-9_]*)")
"""`path:Type`, by the rule of TensorFlow's own tools (tf_op_utils)."""
_FUNCTION = re.compile(r"__(inference|forward|backward)_")
_COLLECTIVE_KERNEL = re.compile(r"(nccl|rccl)\w*Kernel", re.IGNORECASE)
_COPY = re.compile(r"mem(cpy|set)", re.IGNORECASE)
_COPY_DETAILS = ("memcpy_details", "memset_details")
_COPY_SIZE = re.compile(r"\bsize:(\d{1,19})\b")
_COLLECTIVE_INSTRUCTION = re.compile(
    r"%?(async-)?(all-reduce|all-gather|reduce-scatter|(ragged-)?all-to-all|collective-(permute|broadcast)|send|recv)\b"
)
_COPY_INSTRUCTION = re.compile(r"%?(async-)?(copy|copy-start|copy-done|infeed|outfeed)(\.\d+)*( =|$)")
_EAGER_CALL = "EagerLocalExecute: "
_SHARED_WORK = "ParallelFor"
_FETCH = re.compile(r"(\w*GetNext\w*)Op::DoCompute")
"""The work of a node that gets the next element of a dataset, of which the event of the node itself is only the start.
"""
_LOOP_INPUT = re.compile(r"ReduceIterator::(?:(?!Scan::)[^:]+::)*Scan::[^:]+")
"""The input of a loop over a dataset in a `tf.function`, which TensorFlow runs as a Scan over the dataset."""
_ROLES = {
    "KernelAndDeviceFunc::Run": Role.EAGER_KERNEL,
    "ExecutorState::Process": Role.EXECUTOR,
    "ThunkExecutor::Execute": Role.PROGRAM,
}
_DEVICE_ALLOCATOR = re.compile(r"(GPU|TPU)_(\d+)_")
_MEMORY = {"MemoryAllocation": 1, "MemoryDeallocation": -1}
_INPUT_THREAD = "tf_data"


@dataclass(frozen=True)
class Describer:
    """Describes the events of one file."""

    programs: Programs
    functions: frozenset[str]
    """Names of functions, which run as if they were operators."""
    instructions: frozenset[str]
    """Names of XLA instructions."""
    lookup: NodeLookup

    @classmethod
    def of(cls, programs: Programs, descriptions: Sequence[EventDescription], lookup: NodeLookup) -> Describer:
        """Collect the names of functions and instructions from all events of a file."""
        functions = frozenset(str(d.stats.get("eager_op")) for d in descriptions if d.stats.get("is_func"))
        instructions = frozenset(str(d.stats["hlo_op"]) for d in descriptions if "hlo_op" in d.stats)
        return cls(programs, functions, instructions, lookup)

    def describe_all(self, descriptions: Sequence[EventDescription]) -> list[EventValues]:
        """Return the values of each description; operators on threads of `tf.data` prepare input."""
        values = [(self._describe(description), _is_input_thread(description.lane)) for description in descriptions]
        trains = any(is_input and event.is_training for event, is_input in values)
        return [event.as_input(trains=trains) if is_input else event for event, is_input in values]

    def _describe(self, description: EventDescription) -> EventValues:
        name, stats = description.name, dict(description.stats)
        if description.lane.kind is LaneKind.STREAM:
            return self._device_work(name, stats, _stream_kind(name, stats))
        if description.lane.kind is LaneKind.CORE:
            return self._device_work(name, stats, _instruction_kind(name, stats))
        if description.lane.kind is LaneKind.DERIVED:
            return EventValues(name, Layer.FRAMEWORK, Kind.REGION, attributes=attributes_json(stats))
        return self._host_event(name, stats)

    def _host_event(self, name: str, stats: Stats) -> EventValues:
        if name.startswith("$"):
            return EventValues(name, role=Role.FRAME, attributes=attributes_json(stats))
        if name.startswith(END_MARK) and name.removeprefix(END_MARK) in self.instructions:
            return EventValues(name, role=Role.END_MARK)
        if "hlo_op" in stats:
            return self._instruction(name, stats)
        if "step_num" in stats or "tf_function_call" in stats:
            return _annotation(name, stats)
        if name in _MEMORY:
            return _memory(name, stats)
        if name == ASYNC_START and "kernel_type" in stats:
            op_type, path = str(stats.pop("kernel_type")), str(stats.pop("name", ""))
            return operator(op_type, path, role=Role.ASYNC_START, stats=stats, lookup=self.lookup)
        if _LOOP_INPUT.fullmatch(name):
            return EventValues(name, Layer.FRAMEWORK, Kind.REGION, attributes=attributes_json(stats))
        node = NODE.fullmatch(name)
        if node and not self._is_function(node[2]):
            return operator(node[2], node[1], role=Role.NODE, stats=stats, lookup=self.lookup)
        return self._runtime_event(name, stats)

    def _device_work(self, name: str, stats: Stats, kind: Kind) -> EventValues:
        """Describe an event of a stream or a core of an accelerator."""
        correlation_id = int_or_none(stats.pop("correlation_id", None))
        label = NODE.fullmatch(str(stats.get("tf_op") or stats.get("name") or ""))
        node, op_type = label.groups() if label else _origin(self._compiled(stats))
        return EventValues(
            name,
            kind=kind,
            bytes=_copied_bytes(stats),
            canonical=self.lookup.canonical(node, op_type) if op_type else UNKNOWN,
            module=self.lookup.module(node),
            correlation_id=correlation_id,
            attributes=attributes_json(stats),
        )

    def _instruction(self, name: str, stats: Stats) -> EventValues:
        """Describe an XLA instruction: an operator, unless it runs other instructions, as loops do."""
        instruction = self._compiled(stats)
        node, op_type = _origin(instruction)
        by_name = self.lookup.canonical(None, name)
        canonical = self.lookup.canonical(node, op_type) if op_type else by_name
        if canonical.op is None:
            canonical = replace(canonical, op=by_name.op)
        values = EventValues(
            name,
            Layer.FRAMEWORK,
            Kind.OP,
            Role.INSTRUCTION,
            canonical=canonical,
            node=node,
            op_type=op_type,
            module=self.lookup.module(node),
            attributes=attributes_json(({"node": node, "op_type": op_type} if op_type else {}) | stats),
        )
        return values.as_runtime() if instruction and instruction.is_call else values

    def _compiled(self, stats: Stats) -> Instruction | None:
        if "hlo_op" not in stats:
            return None
        return self.programs.instruction(stats.get("hlo_module"), stats.get("program_id"), str(stats["hlo_op"]))

    def _runtime_event(self, name: str, stats: Stats) -> EventValues:
        role, op_type = _ROLES.get(name, Role.PLAIN), None
        if name.startswith(_EAGER_CALL):
            called = name.removeprefix(_EAGER_CALL)
            role, op_type = Role.EAGER_CALL, None if self._is_function(called) else called
        elif fetch := _FETCH.fullmatch(name):
            role, op_type = Role.FETCH, fetch[1]
        elif name.startswith(_SHARED_WORK):
            role = Role.SHARED_WORK
        correlation_id = int_or_none(stats.pop("correlation_id", None))
        attributes = attributes_json(stats)
        return EventValues(name, role=role, op_type=op_type, correlation_id=correlation_id, attributes=attributes)

    def _is_function(self, op_type: str) -> bool:
        return op_type in self.functions or _FUNCTION.match(op_type) is not None


def _is_input_thread(lane: XPlaneLane) -> bool:
    """Return whether this is a native thread of `tf.data`; Python threads may have any name."""
    return lane.kind is LaneKind.THREAD and lane.tid >= FIRST_LANE and lane.thread.startswith(_INPUT_THREAD)


def _origin(instruction: Instruction | None) -> tuple[str | None, str | None]:
    """Return path and type of the node that an instruction was compiled from, if both are known."""
    if instruction and instruction.op_name and instruction.op_type:
        return instruction.op_name, instruction.op_type
    return None, None


def _annotation(name: str, stats: Stats) -> EventValues:
    """Describe a step, which has a number, or the call of a `tf.function`, which has the name of the user's function.

    Such a call mostly waits for operators on other threads, so it is not an operator itself.
    """
    step = stats.get("step_num")
    if isinstance(step, int) and 0 <= step <= LARGEST_NUMBER:
        stats.pop("step_num")
        return EventValues(name, Layer.APPLICATION, Kind.STEP, step=step, attributes=attributes_json(stats))
    return EventValues(name, Layer.APPLICATION, Kind.REGION, attributes=attributes_json(stats))


def _memory(name: str, stats: Stats) -> EventValues:
    size, total = int_or_none(stats.pop("allocation_bytes", None)), int_or_none(stats.pop("bytes_allocated", None))
    allocator = _DEVICE_ALLOCATOR.match(str(stats.get("allocator_name")))
    return EventValues(
        name,
        kind=Kind.MEMORY,
        device=device_name(allocator[1], int(allocator[2])) if allocator else None,
        bytes=None if size is None else size * _MEMORY[name],
        value=total,
        attributes=attributes_json(stats),
    )


def _stream_kind(name: str, stats: Stats) -> Kind:
    if _COLLECTIVE_KERNEL.match(name):
        return Kind.COLLECTIVE
    is_copy = any(key in stats for key in _COPY_DETAILS) or _COPY.match(name)
    return Kind.COPY if is_copy else Kind.KERNEL


def _instruction_kind(name: str, stats: Stats) -> Kind:
    """Return the kind of an instruction on a TPU, by its name or its category."""
    texts = name, str(stats.get("hlo_category", ""))
    if any(map(_COLLECTIVE_INSTRUCTION.match, texts)):
        return Kind.COLLECTIVE
    return Kind.COPY if any(map(_COPY_INSTRUCTION.match, texts)) else Kind.KERNEL


def _copied_bytes(stats: Stats) -> int | None:
    """Return the size of a copy, whose details are `kind_src:pageable kind_dst:device size:64 dest:0 async:1`."""
    sizes = (_COPY_SIZE.search(str(stats[key])) for key in _COPY_DETAILS if key in stats)
    return next((int_or_none(int(size[1])) for size in sizes if size), None)
