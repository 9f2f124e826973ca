"""From blocks of decoded Kineto events to plain columns, one entry per event that is kept.

Every distinct name, thread and JSON value is numbered on the way, so that everything after this works on numbers.
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

Lane = tuple[int | str, int | str]


class Label(NamedTuple):
    """A metadata event: what is named, where, and how."""

    what: str
    lane: Lane
    args: dict[str, Any]


REDUNDANT_FLOWS = frozenset({"ac2g", "fwdbwd", "async_cpu_to_gpu", "async_gpu", "forward_backward"})
"""Arrows for viewers; correlation_id and sequence_id say the same."""

WINDOW = "Trace"
"""Category of the span that is the recording itself."""

WINDOW_LANES = frozenset({"Traces", ""})
"""Processes of the two instants, without a category, that mark where the recording begins and ends."""


class CpuEvent(msgspec.Struct, gc=False):
    """An event of a block in which everything is as it is in most: any other phase, category or argument is an error.

    Words that are listed here cost no new text for each event.
    """

    ph: Literal["X", "i", "s", "f"]
    cat: Literal["", "cpu_op", "user_annotation", "python_function", "fwdbwd", "ac2g", "Trace"] = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: CpuArgs = CpuArgs()


_CPU = msgspec.json.Decoder(list[CpuEvent])
_ANY = msgspec.json.Decoder(list[Event])
_CPU_ARGS = msgspec.json.Decoder(CpuArgs)
_ALL_CPU_ARGS = msgspec.json.Decoder(list[CpuArgs])
_ANY_ARGS = msgspec.json.Decoder(list[dict[str, Any] | None])
_CPU_CATEGORIES = frozenset({"cpu_op", "user_annotation", "python_function"})
_USUAL_PHASES = frozenset({"X", "i"})
_DROP, _KEEP, _KEEP_ALL, _LABEL = range(4)


class Place(NamedTuple):
    """Phase and category of an event, and the lane it is in."""

    phase: str
    category: str
    pid: int | str
    tid: int | str


@dataclass
class Rows:
    """The columns of a document, growing block by block."""

    names: Index = field(default_factory=Index)
    places_index: Index = field(default_factory=Index)
    args: ArgsReader = field(default_factory=ArgsReader)
    labels: list[Label] = field(default_factory=list)
    blocks: list[Columns] = field(default_factory=list)
    count: int = 0
    """How many events were read, kept or not."""

    def add(self, text: bytes | memoryview, path: Path) -> None:
        """Decode one block and append its columns."""
        block = b"".join((b"[", text, b"]"))
        try:
            events: list[CpuEvent] = decode_block(block, _CPU, path)
        except msgspec.ValidationError:
            return self._add_any(block, path)
        place, role = self._places(events)
        if role.max(initial=0) > _KEEP:
            return self._add_any(block, path)
        self.count += len(events)
        kept = np.flatnonzero(role == _KEEP)
        if len(kept) < len(events):
            events, place = [events[row] for row in kept.tolist()], place[kept]
        columns = self.args.read_cpu([e.args for e in events])
        self.blocks.append(self._outline(events, place) | columns)
        return None

    def _add_any(self, block: bytes, path: Path) -> None:
        """Do the same with a block that holds more than the usual args, categories and phases."""
        events = self._decoded(block, path)
        self.count += len(events)
        place, role = self._places(events)
        self.labels += [_label(events[row]) for row in np.flatnonzero(role == _LABEL).tolist()]
        kept = np.flatnonzero((role == _KEEP) | (role == _KEEP_ALL))
        events = [events[row] for row in kept.tolist()]
        self.blocks.append(self._outline(events, place[kept]) | self._mixed_args(events))

    def _decoded(self, block: bytes, path: Path) -> list[Event]:
        try:
            events: list[Event] = decode_block(block, _ANY, path)
        except msgspec.ValidationError as error:
            msg = (
                f"{path} is no Kineto trace: one of its events, counted from event {self.count}, has an unexpected "
                f"shape ({error})."
            )
            raise TraceFormatError(msg) from error
        return events

    def _places(self, events: Sequence[Event] | Sequence[CpuEvent]) -> tuple[Codes, npt.NDArray[np.int8]]:
        """Return the place of each event and what is to be done with it."""
        place = self.places_index.codes([(e.ph, e.cat, e.pid, e.tid) for e in events], np.int32)
        roles = np.array([_role(phase, category, pid) for phase, category, pid, _ in self.places_index], np.int8)
        return place, roles[place]

    @property
    def places(self) -> list[Place]:
        """The distinct places, in the order of their numbers."""
        return [Place(*key) for key in self.places_index]

    def column(self, name: str) -> Ints:
        """Return a column of integers of all blocks, with `MISSING` or -1 where a block has none."""
        empty = MISSING if name in NUMBERS.values() else -1
        parts = [block.get(name, np.full(len(block["ts"]), empty, np.int64)) for block in self.blocks]
        return np.concatenate(parts, dtype=np.int64) if parts else np.empty(0, np.int64)

    def floats(self, name: str) -> npt.NDArray[np.float64]:
        """Return a column of microseconds of all blocks."""
        parts = [block[name] for block in self.blocks]
        return np.concatenate(parts) if parts else np.empty(0)

    def _outline(self, events: Sequence[Event] | Sequence[CpuEvent], place: Codes) -> Columns:
        return {
            "place": place,
            "name": self.names.codes([e.name for e in events], np.int32),
            "ts": np.fromiter([e.ts for e in events], np.float64, len(events)),
            "dur": np.fromiter([e.dur for e in events], np.float64, len(events)),
        }

    def _mixed_args(self, events: Sequence[Event]) -> Columns:
        """Read args of which some are the usual ones and some are not."""
        is_cpu = np.fromiter([e.cat in _CPU_CATEGORIES for e in events], np.bool_, len(events))
        cpu_rows = np.flatnonzero(is_cpu)
        usual, unusual = _cpu_args([events[row].args for row in cpu_rows.tolist()])
        other_rows = np.union1d(np.flatnonzero(~is_cpu), cpu_rows[unusual])
        others = [events[row] for row in other_rows.tolist()]
        found = _ANY_ARGS.decode(b"[%b]" % b",".join([e.args for e in others]))
        every = [(args or {}) | _unusual(event) for args, event in zip(found, others, strict=True)]
        merged: Columns = {}
        _scatter(merged, self.args.read_cpu(usual), np.delete(cpu_rows, unusual), len(events))
        _scatter(merged, self.args.read_any(every), other_rows, len(events))
        return merged


def _cpu_args(texts: Sequence[msgspec.Raw]) -> tuple[list[CpuArgs], list[int]]:
    """Decode args of the usual kind; also return the positions of those that are not."""
    try:
        return _ALL_CPU_ARGS.decode(b"[%b]" % b",".join(texts)), []
    except msgspec.ValidationError:
        pass
    usual, unusual = [], []
    for position, text in enumerate(texts):
        try:
            usual.append(_CPU_ARGS.decode(text))
        except msgspec.ValidationError:
            unusual.append(position)
    return usual, unusual


def _role(phase: str, category: str, pid: int | str) -> int:
    if phase == "M":
        return _LABEL
    if category == WINDOW or (phase == "i" and not category and pid in WINDOW_LANES):
        return _DROP
    if phase in {"s", "f", "t"} and category in REDUNDANT_FLOWS:
        return _DROP
    return _KEEP if phase in _USUAL_PHASES and is_known(category) else _KEEP_ALL


def _label(event: Event) -> Label:
    return Label(event.name, (event.pid, event.tid), msgspec.json.decode(event.args, type=dict[str, Any]))


def _unusual(event: Event) -> dict[str, Any]:
    """Return what an event of unknown category or phase says outside its args."""
    found: dict[str, Any] = {}
    if event.ph not in _USUAL_PHASES:
        found["ph"] = event.ph
    if event.cat and not is_known(event.cat):
        found["cat"] = event.cat
    if event.id is not None:
        found["id"] = event.id
    return found


def _scatter(into: Columns, columns: Columns, rows: Ints, length: int) -> None:
    for name, values in columns.items():
        if name not in into:
            into[name] = np.full(length, MISSING if values.dtype == np.int64 else -1, values.dtype)
        into[name][rows] = values
