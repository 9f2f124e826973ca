"""Says of each event of an XPlane file what it means, from its name and what TensorFlow says about it.

Asked once for each distinct pair of the two. What only the surrounding events tell is in `xplane_mapping`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from unified_profiler.model.foreign_values import LARGEST_NUMBER, whole
from unified_profiler.model.schema import Kind, Layer
from unified_profiler.spi.xplane.ends import END_MARK
from unified_profiler.spi.xplane.hlo import Instruction, Programs
from unified_profiler.spi.xplane.lanes import device_name
from unified_profiler.spi.xplane.planes import Stats
from unified_profiler.spi.xplane.stats import attributes_json
from unified_profiler_tensorflow.read.node_reader import NodeReader
from unified_profiler_tensorflow.read.xplane.meaning import UNKNOWN, Meaning, Role, operator

NODE = re.compile(r"([A-Za-z0-9.][A-Za-z0-9_./>-]*):([A-Z_][A-Za-z0-9_]*)")
"""`path:Type`, by the rule of TensorFlow's own tools (tf_op_utils)."""
_FUNCTION = re.compile(r"__(inference|forward|backward)_")
_COLLECTIVE_KERNEL = re.compile(r"(nccl|rccl)\w*Kernel", re.IGNORECASE)
_COPY = re.compile(r"mem(cpy|set)", re.IGNORECASE)
_EAGER_CALL = "EagerLocalExecute: "
_EAGER_KERNEL = "KernelAndDeviceFunc::Run"
_ASYNC_START = "ExecutorState::ProcessAsync::Start"
_EXECUTOR = "ExecutorState::Process"
_PROGRAM = "ThunkExecutor::Execute"
_SHARED_WORK = "ParallelFor"
_DEVICE_ALLOCATOR = re.compile(r"(GPU|TPU)_(\d+)_")
_MEMORY = {"MemoryAllocation": 1, "MemoryDeallocation": -1}


@dataclass(frozen=True)
class Describer:
    """Says what the events of one file mean."""

    programs: Programs
    functions: frozenset[str]
    """Names of functions, which are run as if they were operators."""
    instructions: frozenset[str]
    """Names of XLA's instructions."""
    reader: NodeReader

    @classmethod
    def of(cls, programs: Programs, every_stats: Iterable[Stats], reader: NodeReader) -> Describer:
        """Learn from all that is said in a file which names are those of functions and instructions."""
        functions, instructions = set(), set()
        for stats in every_stats:
            if stats.get("is_func"):
                functions.add(str(stats.get("eager_op")))
            if "hlo_op" in stats:
                instructions.add(str(stats["hlo_op"]))
        return cls(programs, frozenset(functions), frozenset(instructions), reader)

    def on_host(self, name: str, stats: Stats) -> Meaning:
        """Describe an event of a thread."""
        said = dict(stats)
        if name.startswith("$"):
            return Meaning(name, role=Role.FRAME, attributes=attributes_json(said))
        if name.startswith(END_MARK) and name.removeprefix(END_MARK) in self.instructions:
            return Meaning(name, role=Role.END_MARK)
        if "hlo_op" in said:
            return self._instruction(name, said)
        if "step_num" in said or "tf_function_call" in said:
            return _annotation(name, said)
        if name in _MEMORY:
            return _memory(name, said)
        if name == _ASYNC_START and "kernel_type" in said:
            op_type, path = str(said.pop("kernel_type")), str(said.pop("name", ""))
            return operator(op_type, path, role=Role.ASYNC_START, stats=said, reader=self.reader)
        node = NODE.fullmatch(name)
        if node and not self._is_function(node[2]):
            return operator(node[2], node[1], role=Role.NODE, stats=said, reader=self.reader)
        return self._runtime(name, said)

    def on_stream(self, name: str, stats: Stats) -> Meaning:
        """Describe an event of a stream of an accelerator."""
        said = dict(stats)
        correlation = whole(said.pop("correlation_id", None))
        node = NODE.fullmatch(str(said.get("tf_op") or said.get("name") or ""))
        source = self._source(said)
        if node:
            canonical, path = self.reader.canonical(node[1], node[2]), node[1]
        elif source:
            canonical, path = self.reader.canonical(source.op_name, source.op_type), source.op_name
        else:
            canonical, path = UNKNOWN, None
        return Meaning(
            name,
            kind=_device_kind(name, said),
            canonical=canonical,
            module=self.reader.module(path),
            correlation_id=correlation,
            attributes=attributes_json(said),
        )

    def _instruction(self, name: str, said: Stats) -> Meaning:
        """Describe an instruction of an XLA program: an operator, unless it runs other instructions, as loops do."""
        source = self._source(said)
        node, op_type = (source.op_name, source.op_type) if source else (None, None)
        by_name = self.reader.canonical(None, name)
        canonical = self.reader.canonical(node, op_type) if op_type else by_name
        if canonical.op is None:
            canonical = replace(canonical, op=by_name.op)
        known = {"node": node, "op_type": op_type} if source else {}
        described = Meaning(
            name,
            Layer.FRAMEWORK,
            Kind.OP,
            Role.INSTRUCTION,
            canonical=canonical,
            node=node,
            op_type=op_type,
            module=self.reader.module(node),
            attributes=attributes_json(known | said),
        )
        instruction = self._compiled(said)
        return described.as_runtime() if instruction and instruction.is_call else described

    def _source(self, said: Stats) -> Instruction | None:
        """Return the compiled instruction of an event, None if its program does not name the node it came from."""
        instruction = self._compiled(said) if "hlo_op" in said else None
        return instruction if instruction and instruction.op_name and instruction.op_type else None

    def _compiled(self, said: Stats) -> Instruction | None:
        return self.programs.instruction(said.get("hlo_module"), said.get("program_id"), str(said["hlo_op"]))

    def _runtime(self, name: str, said: Stats) -> Meaning:
        role, op_type = Role.PLAIN, None
        if name.startswith(_EAGER_CALL):
            called = name.removeprefix(_EAGER_CALL)
            role, op_type = Role.EAGER_CALL, None if self._is_function(called) else called
        elif name == _EAGER_KERNEL:
            role = Role.EAGER_KERNEL
        elif name == _EXECUTOR:
            role = Role.EXECUTOR
        elif name == _PROGRAM:
            role = Role.PROGRAM
        elif name.startswith(_SHARED_WORK):
            role = Role.SHARED_WORK
        correlation = whole(said.pop("correlation_id", None))
        return Meaning(name, role=role, op_type=op_type, correlation_id=correlation, attributes=attributes_json(said))

    def _is_function(self, op_type: str) -> bool:
        return op_type in self.functions or _FUNCTION.match(op_type) is not None


def _annotation(name: str, said: Stats) -> Meaning:
    """Describe a step, which says its number, or the call of a `tf.function`, which has the user's name for it.

    The time of such a call is mostly that of waiting for operators on other threads, so that it is none itself.
    """
    step = said.get("step_num")
    if isinstance(step, int) and 0 <= step <= LARGEST_NUMBER:
        said.pop("step_num")
        return Meaning(name, Layer.APPLICATION, Kind.STEP, step=step, attributes=attributes_json(said))
    return Meaning(name, Layer.APPLICATION, Kind.REGION, attributes=attributes_json(said))


def _memory(name: str, said: Stats) -> Meaning:
    size, total = whole(said.pop("allocation_bytes", None)), whole(said.pop("bytes_allocated", None))
    allocator = _DEVICE_ALLOCATOR.match(str(said.get("allocator_name")))
    return Meaning(
        name,
        kind=Kind.MEMORY,
        device=device_name(allocator[1], int(allocator[2])) if allocator else None,
        bytes=None if size is None else size * _MEMORY[name],
        value=total,
        attributes=attributes_json(said),
    )


def _device_kind(name: str, said: Stats) -> Kind:
    if _COLLECTIVE_KERNEL.match(name):
        return Kind.COLLECTIVE
    is_copy = "memcpy_details" in said or "memset_details" in said or _COPY.match(name)
    return Kind.COPY if is_copy else Kind.KERNEL
