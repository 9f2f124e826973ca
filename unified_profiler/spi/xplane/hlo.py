"""Decodes the XLA programs (HLO) that XPlane files embed, to find the origin of each instruction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from unified_profiler.spi.wire import Buffer
from unified_profiler.spi.xplane.planes import Plane, decode_text

# Field numbers of HloProto, HloModuleProto, HloComputationProto, HloInstructionProto and OpMetadata.
_MODULE, _COMPUTATIONS, _INSTRUCTIONS = 1, 3, 2
_NAME, _OPCODE, _METADATA = 1, 2, 7
_OP_TYPE, _OP_NAME = 1, 2
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
    message = Buffer(encoded).messages()
    for number in (_MODULE, _COMPUTATIONS, _INSTRUCTIONS):
        _, message = message.children(number)
    metadata = message.child(_METADATA)
    texts = message.texts(_OPCODE), metadata.texts(_OP_TYPE), metadata.texts(_OP_NAME)
    instructions = (Instruction(*map(decode_text, fields)) for fields in zip(*texts, strict=True))
    return dict(zip(map(decode_text, message.texts(_NAME)), instructions, strict=True))
