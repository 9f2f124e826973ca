"""The programs that XLA compiled, as far as they tell from which TensorFlow node each of their instructions came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from unified_profiler_tensorflow.protobuf import message_classes
from unified_profiler_tensorflow.xplane import Plane

_MESSAGES = message_classes(
    "unified_profiler.tensorflow.hlo",
    {
        "HloProto": {"hlo_module": (1, "HloModuleProto")},
        "HloModuleProto": {"computations": (3, "repeated HloComputationProto")},
        "HloComputationProto": {"instructions": (2, "repeated HloInstructionProto")},
        "HloInstructionProto": {"name": (1, "bytes"), "metadata": (7, "OpMetadata")},
        "OpMetadata": {"op_type": (1, "bytes"), "op_name": (2, "bytes")},
    },
)
_PLANE = "/host:metadata"
_PROGRAM = "Hlo Proto"


class Source(NamedTuple):
    """The node that an instruction came from: of a fusion, the node of its result."""

    node: str
    op_type: str


class Programs:
    """All programs of a file, by `module(program id)`; a program is decoded when it is first asked for."""

    def __init__(self, planes: Iterable[Plane]) -> None:
        self._encoded: dict[str, bytes] = {}
        self._sources: dict[str, Mapping[str, Source]] = {}
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
        name = f"{module}({program})"
        if name not in self._sources:
            encoded = self._encoded.get(name)
            self._sources[name] = _read(encoded) if isinstance(encoded, bytes) else {}
        return self._sources[name].get(instruction)


def _read(encoded: bytes) -> dict[str, Source]:
    found = {}
    for computation in _MESSAGES["HloProto"].FromString(encoded).hlo_module.computations:
        for instruction in computation.instructions:
            said = instruction.metadata
            if said.op_name and said.op_type:
                texts = (text.decode("utf-8", "replace") for text in (instruction.name, said.op_name, said.op_type))
                name, node, op_type = texts
                found[name] = Source(node, op_type)
    return found
