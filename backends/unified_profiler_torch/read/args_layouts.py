"""Structs of the `args` of Kineto events, by category; decoding one fails on any key that it does not have.

A layout has typed fields for the keys that have a column and undecoded ones for the attributes. Keys that only some
versions or devices write, such as those of NCCL and ROCm, are in no layout: these events are read as dictionaries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np

MISSING: int = np.iinfo(np.int64).min
"""Represents null in integer columns until the table is built."""

ABSENT = msgspec.Raw(b"")
"""The value of a key that an event lacks."""

DeviceArgs: TypeAlias = Any
"""An instance of the struct of an `ArgsLayout`."""

_Number: TypeAlias = Annotated[int, msgspec.Meta(gt=MISSING, le=-1 - MISSING)]


class CpuArgs(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The arguments of CPU events; decoding fails on any other key."""

    external: int = msgspec.field(default=0, name="External id")
    record: int = msgspec.field(default=0, name="Record function id")
    index: int = msgspec.field(default=0, name="Ev Idx")
    sequence: _Number = msgspec.field(default=MISSING, name="Sequence number")
    forward_thread: int | None = msgspec.field(default=None, name="Fwd thread id")
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


@dataclass(frozen=True)
class ArgsLayout:
    """The keys of a category and the struct that decodes them."""

    category: str
    numbers: tuple[str, ...]
    """Fields of the struct that are columns."""
    keys: tuple[str, ...]
    """Keys that are attributes."""
    struct: type[DeviceArgs]
    attributes: Callable[[DeviceArgs], tuple[msgspec.Raw, ...]]
    """Returns the undecoded values of `keys`, `ABSENT` for missing ones."""

    @classmethod
    def build(cls, category: str, columns: Mapping[str, str], keys: Sequence[str]) -> ArgsLayout:
        """Create the struct of a category.

        Args:
            category: The category.
            columns: The keys that have a column, by the column's name.
            keys: The keys that are attributes, at least two, so that `attributes` returns a tuple.
        """
        fields: list[tuple[str, Any, Any]] = [
            (f"left_out_{index}", int, msgspec.field(default=0, name=key)) for index, key in enumerate(_LEFT_OUT)
        ]
        fields += [(name, _Number, msgspec.field(default=MISSING, name=key)) for name, key in columns.items()]
        names = [f"attribute_{index}" for index in range(len(keys))]
        attributes = [msgspec.field(default=ABSENT, name=key) for key in keys]
        fields += [(name, msgspec.Raw, attribute) for name, attribute in zip(names, attributes, strict=True)]
        struct = msgspec.defstruct("DeviceArgs", fields, frozen=True, gc=False, forbid_unknown_fields=True)
        return cls(category, tuple(columns), tuple(keys), struct, attrgetter(*names))


_LEFT_OUT = ("External id", "Ev Idx")
_CALL = {"correlation_id": "correlation"}
_WORK = {"device": "device", "stream": "stream", **_CALL}
_COPY = {**_WORK, "bytes": "bytes"}
_MEMORY = {"device": "Device Id", "device_type": "Device Type", "bytes": "Bytes", "value": "Total Allocated"}
_GRAPH = ("graph id", "graph node id")

LAYOUTS = {
    layout.category: layout
    for layout in (
        ArgsLayout.build(
            "kernel",
            _WORK,
            (
                *("queued", "context", "registers per thread", "shared memory", "blocks per SM", "warps per SM"),
                *("grid", "block", "est. achieved occupancy %", *_GRAPH),
            ),
        ),
        ArgsLayout.build("gpu_memcpy", _COPY, ("context", "memory bandwidth (GB/s)", *_GRAPH)),
        ArgsLayout.build("gpu_memset", _COPY, ("context", "memory bandwidth (GB/s)", *_GRAPH)),
        ArgsLayout.build(
            "cuda_sync",
            _WORK,
            (
                *("cuda_sync_kind", "context", "wait_on_stream", "wait_on_cuda_event_record_corr_id"),
                "wait_on_cuda_event_id",
            ),
        ),
        ArgsLayout.build(
            "mtia_ccp_events",
            {**_WORK, "bytes": "size"},
            (
                *("column", "row", "packet_ptr", "direction", "k_work_ptr", "sqid", "seq_num", "host_ctx"),
                "wait_on_stream",
            ),
        ),
        ArgsLayout.build("cuda_runtime", _CALL, ("cbid", "cid")),
        ArgsLayout.build("cuda_driver", _CALL, ("cbid", "cid")),
        ArgsLayout.build("cpu_instant_event", _MEMORY, ("Addr", "Total Reserved", "finished")),
    )
}
"""The layouts by category."""


class ArgsDecoder:
    """Decodes args of one layout."""

    def __init__(self, struct: type[Any]) -> None:
        self._decoder = msgspec.json.Decoder(list[struct])  # type: ignore[valid-type]  # the type is a value here

    def decode(self, texts: Sequence[msgspec.Raw]) -> tuple[list[Any], list[int]]:
        """Return the args that fit the layout, and the positions of those that do not."""
        decoded: list[Any] = []
        unfit: list[int] = []
        while (start := len(decoded) + len(unfit)) < len(texts):
            part = texts[start:] if len(unfit) < _MOST_RESTARTS else texts[start : start + 1]
            try:
                decoded += self._decode(part)
            except msgspec.ValidationError as error:
                position = _position(error)
                decoded += self._decode(part[:position])
                unfit.append(start + position)
        return decoded, unfit

    def _decode(self, texts: Sequence[msgspec.Raw]) -> list[Any]:
        args: list[Any] = self._decoder.decode(b"[%b]" % b",".join(texts))
        return args


_MOST_RESTARTS = 16
"""Misfits among the args of a block after which the rest is decoded one by one."""
_POSITION = re.compile(r"`\$\[(\d+)\]")


def _position(error: msgspec.ValidationError) -> int:
    """Return the position in a list of the element that is not valid."""
    match = _POSITION.search(str(error))
    return int(match.group(1)) if match else 0
