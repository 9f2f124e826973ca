"""Decodes the XLA programs (HLO) that XPlane files embed, to find the origin of each instruction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from unified_profiler.spi.protobuf import message_classes
from unified_profiler.spi.xplane.planes import Plane, decode_text

_MESSAGES = message_classes(
    "unified_profiler.xplane.hlo",
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
_CALLS = frozenset({"call", "while", "conditional"})


class Instruction(NamedTuple):
    """An instruction of a program. A fusion has the operation of its result."""

    opcode: str
    op_type: str
    """The type of the framework's operation that the instruction was compiled from; always empty in JAX."""
    op_name: str
    """The path of that operation."""

    @property
    def is_call(self) -> bool:
        """Whether it runs other instructions, each of which has its own event."""
        return self.opcode in _CALLS


class Programs:
    """The programs of a file by `module(program id)`; a program is decoded on first use."""

    def __init__(self, planes: Iterable[Plane]) -> None:
        self._encoded: dict[str, bytes] = {}
        self._instructions: dict[str, Mapping[str, Instruction]] = {}
        for plane in planes:
            if plane.name == _PLANE:
                for number, stats in plane.event_stats.items():
                    self._encoded[plane.event_names[number]] = stats.get(_PROGRAM, b"")

    @property
    def names(self) -> list[str]:
        """The names of the programs."""
        return list(self._encoded)

    def instruction(self, module: object, program_id: object, name: str) -> Instruction | None:
        """Return an instruction, None if the file does not contain its program."""
        program = f"{module}({program_id})"
        if program not in self._instructions:
            encoded = self._encoded.get(program)
            self._instructions[program] = _decode_program(encoded) if isinstance(encoded, bytes) else {}
        return self._instructions[program].get(name)


def _decode_program(encoded: bytes) -> dict[str, Instruction]:
    instructions = {}
    for computation in _MESSAGES["HloProto"].FromString(encoded).hlo_module.computations:
        for each in computation.instructions:
            fields = each.opcode, each.metadata.op_type, each.metadata.op_name
            instructions[decode_text(each.name)] = Instruction(*map(decode_text, fields))
    return instructions
