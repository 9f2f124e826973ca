"""Structs of the `args` of Kineto events, by category; decoding one fails on any key that it does not have.

A layout has typed fields for the keys that have a column and undecoded ones for the attributes. It begins with the
keys that most versions and devices write; those of others, such as NCCL and ROCm, are added when a file has them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from unified_profiler.model.foreign_values import int_or_none

MISSING: int = np.iinfo(np.int64).min
"""Represents null in integer columns until the table is built."""

ABSENT = msgspec.Raw(b"")
"""The value of a key that an event lacks."""

LEFT_OUT = frozenset(
    {
        *("Ev Idx", "Profiler Event Index", "External id", "Record function id"),
        *("Python id", "Python parent id", "Python module id"),
    }
)
"""Serial numbers that have no meaning outside the file and would differ in every row.

Ev Idx, Profiler Event Index in old files, and Record function id number the events. External id numbers operators, and
on kernels repeats the number of the operator that launched them, a link that correlation and nesting also give. The
Python ids repeat nesting and the number in a module's name.
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

_MAX_DIGITS = 20
"""Digits and sign of the longest integer that fits into a column."""
_MOST_KEYS = 64
"""Maximum number of attributes of a layout, which grows with the keys of a file."""
_MOST_RESTARTS = 16
"""Misfits among the args of a block after which it is decoded in small parts, since each of them restarts decoding."""
_SMALL_PART = 64
# a key before it may contain anything
_POSITION = re.compile(r"`\$\[(\d+)\][^`]*`\Z")

_Number: TypeAlias = Annotated[int, msgspec.Meta(gt=MISSING, le=-1 - MISSING)]


class CpuArgs(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The arguments of CPU events; decoding fails on any other key."""

    external: int = msgspec.field(default=0, name="External id")
    record: int = msgspec.field(default=0, name="Record function id")
    index: int = msgspec.field(default=0, name="Ev Idx")
    sequence_id: _Number = msgspec.field(default=MISSING, name="Sequence number")
    forward_thread: _Number = msgspec.field(default=MISSING, name="Fwd thread id")
    shapes: msgspec.Raw = msgspec.field(default=ABSENT, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=ABSENT, name="Input type")
    strides: msgspec.Raw = msgspec.field(default=ABSENT, name="Input Strides")
    concrete: msgspec.Raw = msgspec.field(default=ABSENT, name="Concrete Inputs")
    python_id: int | None = msgspec.field(default=None, name="Python id")
    python_parent: int | None = msgspec.field(default=None, name="Python parent id")
    python_module: int | None = msgspec.field(default=None, name="Python module id")


class InputArgs(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The arguments that describe an operator's inputs; decoding fails on any other key."""

    shapes: msgspec.Raw = msgspec.field(default=ABSENT, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=ABSENT, name="Input type")
    strides: msgspec.Raw = msgspec.field(default=ABSENT, name="Input Strides")
    concrete: msgspec.Raw = msgspec.field(default=ABSENT, name="Concrete Inputs")


class _OtherArgs(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The arguments that events of all other categories may have; decoding fails on any other key."""

    external: int = msgspec.field(default=0, name="External id")
    index: int = msgspec.field(default=0, name="Ev Idx")


@dataclass(frozen=True)
class ArgsLayout:
    """The keys of a category and the struct that decodes them."""

    struct: type[Any]
    numbers: tuple[str, ...] = ()
    """Fields of the struct that are columns."""
    keys: tuple[str, ...] = ()
    """Keys that are attributes."""
    texts: dict[int, str] = field(default_factory=dict)
    """The column for integers of those of the `keys` whose first value was none, by their position."""

    def extended(self, columns: Mapping[str, str], keys: Collection[str], left_out: Collection[str] = ()) -> ArgsLayout:
        """Return the layout with more keys.

        Args:
            columns: The keys that have a column, by the column's name.
            keys: The keys that are attributes.
            left_out: The keys to ignore.
        """
        raw: list[tuple[str, str]] = [(_attribute(number), key) for number, key in enumerate(keys, len(self.keys))]
        raw += [(f"left_out_{number}", key) for number, key in enumerate(left_out, len(self._known))]
        fields = [
            *((name, _Number, msgspec.field(default=MISSING, name=key)) for name, key in columns.items()),
            *((name, msgspec.Raw, msgspec.field(default=ABSENT, name=key)) for name, key in raw),
        ]
        struct = msgspec.defstruct(
            "Args", fields, bases=(self.struct,), frozen=True, gc=False, forbid_unknown_fields=True
        )
        return replace(self, struct=struct, numbers=(*self.numbers, *columns), keys=(*self.keys, *keys))

    def extended_for(self, text: msgspec.Raw) -> ArgsLayout | None:
        """Return the layout with the keys of an event that it lacks; None if it has all of them, or cannot have one."""
        members = msgspec.json.decode(text, type=dict[str, msgspec.Raw] | None) or {}
        unknown = {key: value for key, value in members.items() if key not in self._known}
        numbers = {key: NUMBERS[key] for key in unknown if key in NUMBERS}
        used = {*self.numbers, *self.texts.values()}
        if not unknown or unknown.keys() & set(INPUTS) or len({*numbers.values()} - used) < len(numbers):
            return None
        columns = {name: key for key, name in numbers.items() if raw_integer(unknown[key]) is not None}
        keys = [key for key in unknown if key not in LEFT_OUT and key not in columns.values()]
        if len(self.keys) + len(keys) > _MOST_KEYS:
            return None
        extended = self.extended(columns, keys, unknown.keys() & LEFT_OUT)
        texts = {extended.keys.index(key): name for key, name in numbers.items() if key in keys}
        return replace(extended, texts=self.texts | texts)

    def attributes(self, args: Sequence[Any], delimiter: bytes) -> tuple[Iterator[bytes], dict[str, list[int]]]:
        """Return the undecoded values of `keys` in each of the args, joined, and the integers among those of `texts`.

        The values of missing keys are empty. The integers are by the name of their column.
        """
        columns: list[Iterable[msgspec.Raw]] = [
            map(attrgetter(_attribute(number)), args) for number in range(len(self.keys))
        ]
        integers = {}
        for number, column in self.texts.items():
            values = list(columns[number])
            numbers = list(map(raw_integer, values))
            integers[column] = [MISSING if each is None else each for each in numbers]
            columns[number] = [value if each is None else ABSENT for value, each in zip(values, numbers, strict=True)]
        return map(delimiter.join, zip(*columns, strict=True)), integers

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.struct.__struct_encode_fields__)


def _attribute(number: int) -> str:
    """Return the name of a field."""
    return f"attribute_{number}"


CPU_ARGS = ArgsLayout(CpuArgs, numbers=("sequence_id",))
"""The layout of operators, annotations and Python functions."""


def _layout(columns: Mapping[str, str], *keys: str) -> ArgsLayout:
    return ArgsLayout(_OtherArgs).extended(columns, keys)


_CALL = {"correlation_id": "correlation"}
_WORK = {"device": "device", "stream": "stream", **_CALL}
_COPY = {**_WORK, "bytes": "bytes"}
_MEMORY = {"device": "Device Id", "device_type": "Device Type", "bytes": "Bytes", "value": "Total Allocated"}
_GRAPH = ("graph id", "graph node id")

LAYOUTS = {
    "kernel": _layout(
        _WORK,
        *("queued", "context", "registers per thread", "shared memory", "blocks per SM", "warps per SM"),
        *("grid", "block", "est. achieved occupancy %", *_GRAPH),
    ),
    "gpu_memcpy": _layout(_COPY, "context", "memory bandwidth (GB/s)", *_GRAPH),
    "gpu_memset": _layout(_COPY, "context", "memory bandwidth (GB/s)", *_GRAPH),
    "cuda_sync": _layout(
        _WORK,
        *("cuda_sync_kind", "context", "wait_on_stream", "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id"),
    ),
    "mtia_ccp_events": _layout(
        {**_WORK, "bytes": "size"},
        *("column", "row", "packet_ptr", "direction", "k_work_ptr", "sqid", "seq_num", "host_ctx", "wait_on_stream"),
    ),
    "cuda_runtime": _layout(_CALL, "cbid", "cid"),
    "cuda_driver": _layout(_CALL, "cbid", "cid"),
    "cpu_instant_event": _layout(_MEMORY, "Addr", "Total Reserved", "finished"),
}
"""The layouts of other events by category."""


class DecodedArgs(NamedTuple):
    """Args of one layout, and their positions in the block."""

    layout: ArgsLayout
    positions: list[int]
    args: list[Any]


class ArgsDecoder:
    """Decodes args by a layout that grows with the keys of the file."""

    def __init__(self, layout: ArgsLayout) -> None:
        self._set_layout(layout)

    def decode(self, texts: Sequence[msgspec.Raw]) -> tuple[list[DecodedArgs], list[int]]:
        """Return the args of a block by layout, and the positions of those that fit none."""
        parts = [DecodedArgs(self._layout, [], [])]
        unfit: list[int] = []
        start = 0
        while start < len(texts):
            part = texts[start:] if len(unfit) < _MOST_RESTARTS else texts[start : start + _SMALL_PART]
            try:
                args, fits = self._decode(part), True
            except msgspec.ValidationError as error:
                args, fits = self._decode(part[: _position(error)]), False
            parts[-1].positions.extend(range(start, start + len(args)))
            parts[-1].args.extend(args)
            start += len(args)
            if fits:
                continue
            if extended := self._layout.extended_for(texts[start]):
                self._set_layout(extended)
                parts.append(DecodedArgs(extended, [], []))
            else:
                unfit.append(start)
                start += 1
        return [part for part in parts if part.args], unfit

    def _set_layout(self, layout: ArgsLayout) -> None:
        self._layout = layout
        self._decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[layout.struct])  # type: ignore[name-defined]  # the type is a value here

    def _decode(self, texts: Sequence[msgspec.Raw]) -> list[Any]:
        return self._decoder.decode(b"[%b]" % b",".join(texts))


def raw_integer(value: msgspec.Raw) -> int | None:
    """Return the value of a JSON number without fraction, None for anything else."""
    text = bytes(value)
    return int_or_none(int(text)) if len(text) <= _MAX_DIGITS and text.removeprefix(b"-").isdigit() else None


def _position(error: msgspec.ValidationError) -> int:
    """Return the position in a list of the element that is not valid."""
    match = _POSITION.search(str(error))
    return int(match.group(1)) if match else 0
