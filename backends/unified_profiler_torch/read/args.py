"""Reads the `args` of Kineto events and separates columns, attributes and arguments that are left out.

Most events have only the keys of `CpuArgs` and are decoded with it in one call; events with other keys are decoded as
dictionaries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from unified_profiler.model.columns import Index, encode
from unified_profiler.model.foreign_values import int_or_none

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Columns = dict[str, npt.NDArray[Any]]

MISSING: int = np.iinfo(np.int64).min
"""Represents null in integer columns until the table is built."""

LEFT_OUT = frozenset(
    {"Ev Idx", "External id", "Record function id", "Python id", "Python parent id", "Python module id"}
)
"""Serial numbers that have no meaning outside the file and would differ in every row.

Ev Idx and Record function id number the events. External id numbers operators, and on kernels repeats the number of the
operator that launched them, a link that correlation and nesting also give. The Python ids repeat nesting and the number
in a module's name.
"""

NUMBERS = {
    "Sequence number": "sequence_id",
    "correlation": "correlation_id",
    "stream": "stream",
    "device": "device",
    "Device Id": "device",
    "Device Type": "device_type",
    "bytes": "bytes",
    "Bytes": "bytes",
    "Total Allocated": "value",
}
"""Keys whose integer value has a column."""

INPUTS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
"""Keys that describe an operator's inputs: long, and the same for every call from one source line."""

COLUMN_INPUTS = {"Input Dims": "input_shapes", "Input type": "input_types"}
"""The `INPUTS` that have a column; the others are attributes."""

# no JSON contains it
_DELIMITER = b"\0"
_ABSENT = msgspec.Raw(b"")


class CpuArgs(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The arguments of CPU events; decoding fails on any other key."""

    external: int = msgspec.field(default=0, name="External id")
    record: int = msgspec.field(default=0, name="Record function id")
    index: int = msgspec.field(default=0, name="Ev Idx")
    sequence: Annotated[int, msgspec.Meta(gt=MISSING, le=-1 - MISSING)] = msgspec.field(
        default=MISSING, name="Sequence number"
    )
    forward_thread: int | None = msgspec.field(default=None, name="Fwd thread id")
    shapes: msgspec.Raw = msgspec.field(default=_ABSENT, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=_ABSENT, name="Input type")
    strides: msgspec.Raw = msgspec.field(default=_ABSENT, name="Input Strides")
    concrete: msgspec.Raw = msgspec.field(default=_ABSENT, name="Concrete Inputs")
    python_id: int | None = msgspec.field(default=None, name="Python id")
    python_parent: int | None = msgspec.field(default=None, name="Python parent id")
    python_module: int | None = msgspec.field(default=None, name="Python module id")


@dataclass
class ArgsReader:
    """Converts args to integer codes; every distinct JSON value is kept once for the whole file."""

    inputs: Index = field(default_factory=Index)
    """The raw JSON of the `INPUTS`, joined."""
    forward: Index = field(default_factory=Index)
    """Values of "Fwd thread id"."""
    rest: Index = field(default_factory=Index)
    """JSON objects of all other arguments."""

    def read_cpu(self, args: Sequence[CpuArgs]) -> Columns:
        """Read args that all fit `CpuArgs`."""
        columns: Columns = {
            "sequence_id": np.fromiter([a.sequence for a in args], np.int64, len(args)),
            "forward": self.forward.codes([a.forward_thread for a in args], np.int32),
        }
        if [a.types for a in args].count(_ABSENT) < len(args):
            joined = [_DELIMITER.join((a.shapes, a.types, a.strides, a.concrete)) for a in args]
            columns["inputs"] = self.inputs.codes(joined, np.int32)
        return columns

    def read_any(self, args: Sequence[Mapping[str, Any]]) -> Columns:
        """Read args with arbitrary keys, one by one."""
        numbers = {name: [MISSING] * len(args) for name in set(NUMBERS.values())}
        inputs, rests = [], []
        for row, event_args in enumerate(args):
            rest = {}
            for key, value in event_args.items():
                if key in NUMBERS and (number := int_or_none(value)) is not None:
                    numbers[NUMBERS[key]][row] = number
                elif key not in LEFT_OUT and key not in INPUTS:
                    rest[key] = value
            rests.append(msgspec.json.encode(rest))
            parts = [msgspec.json.encode(event_args[key]) if key in event_args else b"" for key in INPUTS]
            inputs.append(_DELIMITER.join(parts))
        columns: Columns = {name: np.array(values, np.int64) for name, values in numbers.items()}
        return columns | {"inputs": self.inputs.codes(inputs, np.int32), "rest": self.rest.codes(rests, np.int32)}

    def input_texts(self, key: str) -> list[str | None]:
        """Return one of the `INPUTS` for each code of `inputs`, as compact JSON."""
        part = INPUTS.index(key)
        return [_compact(joined.split(_DELIMITER)[part]) for joined in self.inputs]

    def attributes(self, inputs: Ints, forward: Ints, rest: Ints) -> tuple[Ints, list[str | None]]:
        """Return the attributes of each event, as codes and their texts; the codes given are -1 for no value."""
        shape = (len(self.inputs) + 1, len(self.forward) + 1, len(self.rest) + 1)
        codes, distinct = encode(((inputs + 1) * shape[1] + forward + 1) * shape[2] + rest + 1)
        inputs_of, forward_of, rest_of = ([None, *index] for index in (self.inputs, self.forward, self.rest))
        combinations = zip(*np.unravel_index(distinct, shape), strict=True)
        return codes, [_attribute_text(inputs_of[i], forward_of[f], rest_of[r]) for i, f, r in combinations]


_SCRIPT_SUBMODULE = re.compile(r"(?:^|\.)(?!TOP\(|SELF\()([^.():]+)\([^()]*\)::")


def script_path(rest: bytes) -> str | None:
    """Return the path of the module in which TorchScript ran an operator, from the JSON of its other arguments.

    torch writes `TOP(Net)::forward.layers(Sequential)::forward.0(Linear)::forward.` for `layers.0`.
    """
    if b"Module Hierarchy" not in rest:
        return None
    return ".".join(_SCRIPT_SUBMODULE.findall(str(msgspec.json.decode(rest)["Module Hierarchy"]))) or None


def _attribute_text(inputs: bytes | None, forward: int | None, rest: bytes | None) -> str | None:
    attributes: dict[str, Any] = {} if forward is None else {"Fwd thread id": forward}
    parts = zip(INPUTS, inputs.split(_DELIMITER), strict=True) if inputs else ()
    attributes |= {key: msgspec.json.decode(text) for key, text in parts if text and key not in COLUMN_INPUTS}
    attributes |= msgspec.json.decode(rest) if rest else {}
    return msgspec.json.encode(attributes).decode() if attributes else None


def _compact(text: bytes) -> str | None:
    return msgspec.json.encode(msgspec.json.decode(text)).decode() if text else None
