"""The programs that XLA compiled, as far as they tell from which TensorFlow node each of their instructions came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from unified_profiler_tensorflow.read.protobuf import message_classes
from unified_profiler_tensorflow.read.xplane.planes import Plane

_MESSAGES = message_classes(
    "unified_profiler.tensorflow.hlo",
    {
        "HloProto": {"hlo_module": (1, "HloModuleProto")},
        "HloModuleProto": {"computations": (3, "repeated HloComputationProto")},
        "HloComputationProto": {"instructions": (2, "repeated HloInstructionProto")},
        "HloInstructionProto": {"name": (1, "bytes"), "opcode": (2, "bytes"), "metadata": (7, "OpMetadata")},
        "OpMetadata": {"op_type": (1, "bytes"), "op_name": (2, "bytes")},
    },
)
_PLANE = "/host:metadata"
_PROGRAM = "Hlo Proto"
_CALLS = frozenset({b"call", b"while", b"conditional"})
"""Opcodes of instructions that run other instructions, each of which has an event of its own."""


class Source(NamedTuple):
    """The node that an instruction came from: of a fusion, the node of its result."""

    node: str
    op_type: str


class _Program(NamedTuple):
    """What is read of a program."""

    sources: Mapping[str, Source]
    calls: frozenset[str]
    """Names of the instructions that run others."""


_UNKNOWN = _Program({}, frozenset())


class Programs:
    """All programs of a file, by `module(program id)`; a program is decoded when it is first asked for."""

    def __init__(self, planes: Iterable[Plane]) -> None:
        self._encoded: dict[str, bytes] = {}
        self._programs: dict[str, _Program] = {}
        for plane in planes:
            if plane.name == _PLANE:
                for number, stats in plane.event_stats.items():
                    self._encoded[plane.event_names[number]] = stats.get(_PROGRAM, b"")

    @cached_property
    def names(self) -> list[str]:
        """The names of the programs."""
        return list(self._encoded)

    def source(self, module: object, program: object, instruction: str) -> Source | None:
        """Return where an instruction came from, None where the program does not tell."""
        return self._program(module, program).sources.get(instruction)

    def is_call(self, module: object, program: object, instruction: str) -> bool:
        """Say whether an instruction runs others, as far as the program tells."""
        return instruction in self._program(module, program).calls

    def _program(self, module: object, program: object) -> _Program:
        name = f"{module}({program})"
        if name not in self._programs:
            encoded = self._encoded.get(name)
            self._programs[name] = _read(encoded) if isinstance(encoded, bytes) else _UNKNOWN
        return self._programs[name]


def _read(encoded: bytes) -> _Program:
    sources, calls = {}, set()
    for computation in _MESSAGES["HloProto"].FromString(encoded).hlo_module.computations:
        for instruction in computation.instructions:
            name, said = _decode(instruction.name), instruction.metadata
            if said.op_name and said.op_type:
                sources[name] = Source(_decode(said.op_name), _decode(said.op_type))
            if instruction.opcode in _CALLS:
                calls.add(name)
    return _Program(sources, frozenset(calls))


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")
