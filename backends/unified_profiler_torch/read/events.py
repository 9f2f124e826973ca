"""Decodes blocks of Kineto events into NumPy columns, one entry per event that is kept.

Every distinct name, event group and JSON value is replaced by an integer code, so that all later work is on integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.columns import Index
from unified_profiler_torch.read.args import MISSING, NUMBERS, ArgsReader, Codes, Columns, CpuArgs, Ints
from unified_profiler_torch.read.categories import is_known
from unified_profiler_torch.read.kineto import Event, decode_block

REDUNDANT_FLOWS = frozenset({"ac2g", "fwdbwd", "async_cpu_to_gpu", "async_gpu", "forward_backward"})
"""Categories of arrows for viewers; correlation_id and sequence_id contain the same links."""

WINDOW = "Trace"
"""Category of the span that covers the whole recording."""

WINDOW_PROCESSES = frozenset({"Traces", ""})
"""Processes of the two instants, without a category, that mark where the recording begins and ends."""


class CpuEvent(msgspec.Struct, gc=False):
    """An event of the common form; decoding fails on any other phase, category or argument.

    The listed literals are decoded without a new string per event.
    """

    ph: Literal["X", "i", "s", "f"]
    cat: Literal["", "cpu_op", "user_annotation", "python_function", "fwdbwd", "ac2g", "Trace"] = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: CpuArgs = CpuArgs()


_CPU_EVENTS = msgspec.json.Decoder(list[CpuEvent])
_EVENTS = msgspec.json.Decoder(list[Event])
_CPU_ARGS = msgspec.json.Decoder(CpuArgs)
_CPU_ARGS_LIST = msgspec.json.Decoder(list[CpuArgs])
_ARGS_LIST = msgspec.json.Decoder(list[dict[str, Any] | None])
_CPU_CATEGORIES = frozenset({"cpu_op", "user_annotation", "python_function"})
_COMMON_PHASES = frozenset({"X", "i"})
_DROP, _KEEP, _KEEP_UNKNOWN, _METADATA = range(4)


class EventGroup(NamedTuple):
    """Phase, category, process and thread, which many events share."""

    phase: str
    category: str
    pid: int | str
    tid: int | str


class MetadataEvent(NamedTuple):
    """An event that names or labels a process or thread."""

    name: str
    pid: int | str
    tid: int | str
    args: dict[str, Any]


@dataclass
class KinetoEvents:
    """The events of a document as columns that grow block by block."""

    names: Index = field(default_factory=Index)
    group_index: Index = field(default_factory=Index)
    args: ArgsReader = field(default_factory=ArgsReader)
    metadata: list[MetadataEvent] = field(default_factory=list)
    blocks: list[Columns] = field(default_factory=list)
    count: int = 0
    """Number of events read, kept or not."""

    def add(self, text: bytes | memoryview, path: Path) -> None:
        """Decode one block and append its columns."""
        block = b"".join((b"[", text, b"]"))
        try:
            events: list[CpuEvent] = decode_block(block, _CPU_EVENTS, path)
        except msgspec.ValidationError:
            return self._add_mixed(block, path)
        group, action = self._groups_and_actions(events)
        if action.max(initial=0) > _KEEP:
            return self._add_mixed(block, path)
        self.count += len(events)
        kept = np.flatnonzero(action == _KEEP)
        if len(kept) < len(events):
            events, group = [events[row] for row in kept.tolist()], group[kept]
        self.blocks.append(self._common_columns(events, group) | self.args.read_cpu([e.args for e in events]))
        return None

    def _add_mixed(self, block: bytes, path: Path) -> None:
        """Append a block in which some events are not of the common form."""
        events = self._decode(block, path)
        self.count += len(events)
        group, action = self._groups_and_actions(events)
        self.metadata += [_metadata_event(events[row]) for row in np.flatnonzero(action == _METADATA).tolist()]
        kept = np.flatnonzero((action == _KEEP) | (action == _KEEP_UNKNOWN))
        events = [events[row] for row in kept.tolist()]
        self.blocks.append(self._common_columns(events, group[kept]) | self._mixed_args(events))

    def _decode(self, block: bytes, path: Path) -> list[Event]:
        try:
            events: list[Event] = decode_block(block, _EVENTS, path)
        except msgspec.ValidationError as error:
            msg = (
                f"{path} is not a Kineto trace: one of its events, counted from event {self.count}, has an unexpected "
                f"structure ({error})."
            )
            raise TraceFormatError(msg) from error
        return events

    def _groups_and_actions(self, events: Sequence[Event | CpuEvent]) -> tuple[Codes, npt.NDArray[np.int8]]:
        """Return the group of each event, and whether to keep it, drop it or read it as metadata."""
        group = self.group_index.codes([(e.ph, e.cat, e.pid, e.tid) for e in events], np.int32)
        actions = np.array([_action(phase, category, pid) for phase, category, pid, _ in self.group_index], np.int8)
        return group, actions[group]

    @property
    def groups(self) -> list[EventGroup]:
        """The distinct groups in the order of their codes."""
        return [EventGroup(*key) for key in self.group_index]

    def column(self, name: str) -> Ints:
        """Return an integer column of all blocks, with `MISSING` or -1 for blocks that lack it."""
        default = MISSING if name in NUMBERS.values() else -1
        parts = [block.get(name, np.full(len(block["ts"]), default, np.int64)) for block in self.blocks]
        return np.concatenate(parts, dtype=np.int64) if parts else np.empty(0, np.int64)

    def microseconds(self, name: str) -> npt.NDArray[np.float64]:
        """Return the column `ts` or `dur` of all blocks."""
        return np.concatenate([block[name] for block in self.blocks] or [np.empty(0)])

    def _common_columns(self, events: Sequence[Event | CpuEvent], group: Codes) -> Columns:
        return {
            "group": group,
            "name": self.names.codes([e.name for e in events], np.int32),
            "ts": np.fromiter([e.ts for e in events], np.float64, len(events)),
            "dur": np.fromiter([e.dur for e in events], np.float64, len(events)),
        }

    def _mixed_args(self, events: Sequence[Event]) -> Columns:
        """Read args of which only some fit `CpuArgs`."""
        is_cpu = np.fromiter([e.cat in _CPU_CATEGORIES for e in events], np.bool_, len(events))
        cpu_rows = np.flatnonzero(is_cpu)
        cpu_args, unfit = _decode_cpu_args([events[row].args for row in cpu_rows.tolist()])
        other_rows = np.union1d(np.flatnonzero(~is_cpu), cpu_rows[unfit])
        others = [events[row] for row in other_rows.tolist()]
        decoded = _ARGS_LIST.decode(b"[%b]" % b",".join([e.args for e in others]))
        other_args = [(args or {}) | _unknown_fields(event) for args, event in zip(decoded, others, strict=True)]
        merged: Columns = {}
        _scatter(merged, self.args.read_cpu(cpu_args), np.delete(cpu_rows, unfit), len(events))
        _scatter(merged, self.args.read_any(other_args), other_rows, len(events))
        return merged


def _decode_cpu_args(texts: Sequence[msgspec.Raw]) -> tuple[list[CpuArgs], list[int]]:
    """Decode args that fit `CpuArgs`; also return the positions of those that do not."""
    try:
        return _CPU_ARGS_LIST.decode(b"[%b]" % b",".join(texts)), []
    except msgspec.ValidationError:
        pass
    decoded, unfit = [], []
    for position, text in enumerate(texts):
        try:
            decoded.append(_CPU_ARGS.decode(text))
        except msgspec.ValidationError:
            unfit.append(position)
    return decoded, unfit


def _action(phase: str, category: str, pid: int | str) -> int:
    if phase == "M":
        return _METADATA
    if category == WINDOW or (phase == "i" and not category and pid in WINDOW_PROCESSES):
        return _DROP
    if phase in {"s", "f", "t"} and category in REDUNDANT_FLOWS:
        return _DROP
    return _KEEP if phase in _COMMON_PHASES and is_known(category) else _KEEP_UNKNOWN


def _metadata_event(event: Event) -> MetadataEvent:
    return MetadataEvent(event.name, event.pid, event.tid, msgspec.json.decode(event.args, type=dict[str, Any]))


def _unknown_fields(event: Event) -> dict[str, Any]:
    """Return the phase and category that no column can express, and the id, as attributes."""
    fields: dict[str, Any] = {}
    if event.ph not in _COMMON_PHASES:
        fields["ph"] = event.ph
    if event.cat and not is_known(event.cat):
        fields["cat"] = event.cat
    if event.id is not None:
        fields["id"] = event.id
    return fields


def _scatter(target: Columns, columns: Columns, rows: Ints, length: int) -> None:
    for name, values in columns.items():
        if name not in target:
            target[name] = np.full(length, MISSING if values.dtype == np.int64 else -1, values.dtype)
        target[name][rows] = values
