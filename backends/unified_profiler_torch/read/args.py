"""The `args` of Kineto's events: which of them are columns, which attributes, and which are left out.

Most events carry only the keys of `CpuArgs` and are decoded with it in one go; any other key goes the general way.
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
from unified_profiler.model.foreign_values import whole

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Columns = dict[str, npt.NDArray[Any]]

MISSING: int = np.iinfo(np.int64).min
"""Stands for null in integer columns until the table is built."""

LEFT_OUT = frozenset(
    {"Ev Idx", "External id", "Record function id", "Python id", "Python parent id", "Python module id"}
)
"""Running numbers that mean nothing outside the file and would differ in every row.

Ev Idx and Record function id number the events. External id numbers operators, and repeats on kernels the number of the
operator that launched them: the same link that correlation and nesting give. The Python ids repeat nesting and the
number in a module's name.
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
"""Keys that describe an operator's inputs: long, and the same for every call from one place."""

COLUMN_INPUTS = {"Input Dims": "input_shapes", "Input type": "input_types"}
"""Those of `INPUTS` that have a column; the others are attributes."""

_BETWEEN = b"\0"  # no JSON holds it
_ABSENT = msgspec.Raw(b"")


class CpuArgs(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What the events of the processor carry; any other key is an error."""

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
    """Turns args into numbers, keeping every distinct JSON value once for the whole file."""

    inputs: Index = field(default_factory=Index)
    """The raw JSON slices of `INPUTS`, joined."""
    forward: Index = field(default_factory=Index)
    """Values of "Fwd thread id"."""
    rest: Index = field(default_factory=Index)
    """JSON objects of everything else."""

    def read_cpu(self, args: Sequence[CpuArgs]) -> Columns:
        """Read args that are all of the usual kind."""
        columns: Columns = {
            "sequence_id": np.fromiter([a.sequence for a in args], np.int64, len(args)),
            "forward": self.forward.codes([a.forward_thread for a in args], np.int32),
        }
        if [a.types for a in args].count(_ABSENT) < len(args):
            joined = [_BETWEEN.join((a.shapes, a.types, a.strides, a.concrete)) for a in args]
            columns["inputs"] = self.inputs.codes(joined, np.int32)
        return columns

    def read_any(self, args: Sequence[Mapping[str, Any]]) -> Columns:
        """Read args of any kind, one by one."""
        numbers = {name: [MISSING] * len(args) for name in set(NUMBERS.values())}
        inputs, rests = [], []
        for row, found in enumerate(args):
            rest = {}
            for key, value in found.items():
                if key in NUMBERS and (number := whole(value)) is not None:
                    numbers[NUMBERS[key]][row] = number
                elif key not in LEFT_OUT and key not in INPUTS:
                    rest[key] = value
            rests.append(msgspec.json.encode(rest))
            inputs.append(_BETWEEN.join([msgspec.json.encode(found[key]) if key in found else b"" for key in INPUTS]))
        columns: Columns = {name: np.array(values, np.int64) for name, values in numbers.items()}
        return columns | {"inputs": self.inputs.codes(inputs, np.int32), "rest": self.rest.codes(rests, np.int32)}

    def input_texts(self, part: int) -> list[str | None]:
        """Return one of `INPUTS` for each number of `inputs`, as compact JSON."""
        return [_compact(joined.split(_BETWEEN)[part]) for joined in self.inputs]

    def attributes(self, inputs: Ints, forward: Ints, rest: Ints) -> tuple[Ints, list[str | None]]:
        """Return the attributes of each event, as numbers and their texts; -1 stands for "none of these"."""
        shape = (len(self.inputs) + 1, len(self.forward) + 1, len(self.rest) + 1)
        together = ((inputs + 1) * shape[1] + forward + 1) * shape[2] + rest + 1
        codes, distinct = encode(together)
        parts = [list(index) for index in (self.inputs, self.forward, self.rest)]
        texts = []
        for place in zip(*np.unravel_index(distinct, shape), strict=True):
            values = [part[number - 1] if number else None for part, number in zip(parts, place, strict=True)]
            texts.append(_attribute_text(*values))
        return codes, texts


_CALLED_IN_SCRIPT = re.compile(r"(?:^|\.)(?!TOP\(|SELF\()([^.():]+)\([^()]*\)::")


def script_path(rest: bytes) -> str | None:
    """Return the path of the module in which TorchScript ran an operator, from arguments that are no columns.

    Torch writes `TOP(Net)::forward.layers(Sequential)::forward.0(Linear)::forward.`, here `layers.0`.
    """
    if b"Module Hierarchy" not in rest:
        return None
    return ".".join(_CALLED_IN_SCRIPT.findall(str(msgspec.json.decode(rest)["Module Hierarchy"]))) or None


def _attribute_text(inputs: bytes | None, forward: int | None, rest: bytes | None) -> str | None:
    found: dict[str, Any] = {} if forward is None else {"Fwd thread id": forward}
    parts = zip(INPUTS, inputs.split(_BETWEEN), strict=True) if inputs else ()
    found |= {key: msgspec.json.decode(text) for key, text in parts if text and key not in COLUMN_INPUTS}
    found |= msgspec.json.decode(rest) if rest else {}
    return msgspec.json.encode(found).decode() if found else None


def _compact(text: bytes) -> str | None:
    return msgspec.json.encode(msgspec.json.decode(text)).decode() if text else None
