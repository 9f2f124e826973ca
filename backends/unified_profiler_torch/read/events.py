"""Decodes blocks of Kineto events into NumPy columns, one entry per event that is kept.

Every distinct name, event group and JSON value is replaced by an integer code, so that all later work is on integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.tree import Flags
from unified_profiler_torch.read.args import ArgsReader, Codes, Columns, Ints
from unified_profiler_torch.read.args_layouts import CPU_ARGS, LAYOUTS, MISSING, NUMBERS, ArgsDecoder, CpuArgs
from unified_profiler_torch.read.categories import is_known
from unified_profiler_torch.read.kineto import Event, decode_block
from unified_profiler_torch.read.labels import (
    COMMON_PHASES,
    CPU_LAYOUT,
    KEEP,
    KEEP_UNKNOWN,
    METADATA,
    OTHER_LAYOUT,
    EventGroup,
    LabelIndex,
    MetadataEvent,
)
from unified_profiler_torch.read.operator_text import Operators, read_operators
from unified_profiler_torch.read.times import ZERO, exact_nanoseconds


class CpuEvent(msgspec.Struct, gc=False):
    """An event of the common form; decoding fails on any other phase, category or argument.

    The listed literals are decoded without a new string per event.
    """

    ph: Literal["X", "i", "s", "f"]
    cat: Literal["", "cpu_op", "user_annotation", "python_function", "fwdbwd", "ac2g", "Trace"] = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: msgspec.Raw = ZERO
    dur: msgspec.Raw = ZERO
    args: CpuArgs = CpuArgs()


_CPU_EVENTS = msgspec.json.Decoder(list[CpuEvent])
_EVENTS = msgspec.json.Decoder(list[Event])
_LAYOUTS = (CPU_ARGS, *LAYOUTS.values())


@dataclass
class KinetoEvents:
    """The events of a document as columns that grow block by block."""

    labels: LabelIndex = field(default_factory=LabelIndex)
    args: ArgsReader = field(default_factory=ArgsReader)
    metadata: list[MetadataEvent] = field(default_factory=list)
    blocks: list[Columns] = field(default_factory=list)
    count: int = 0
    """Number of events read, kept or not."""
    _decoders: list[ArgsDecoder] = field(default_factory=lambda: list(map(ArgsDecoder, _LAYOUTS)))
    _has_operators: bool = True
    """Whether most events of the last block were operators that can be read by their text."""
    _is_mixed: bool = False
    """Whether the last block had events of other forms than `CpuEvent`; the next one then probably has, too."""

    def add(self, block: bytes, path: Path) -> None:
        """Decode one block, a JSON list of events, and append its columns."""
        columns = self._with_operators(block, path) if self._has_operators else None
        if columns is None:
            keep, columns = self._decoded(block, path)
            self.count += len(keep)
        self.blocks.append(columns)

    def _with_operators(self, block: bytes, path: Path) -> Columns | None:
        """Read operators by their text and decode the others; None if there are few operators, or damaged events."""
        operators = read_operators(block, self.labels.code_of_text, self.args.inputs_code)
        self._has_operators = operators is not None and 2 * len(operators.rows) >= operators.event_count
        if operators is None or not self._has_operators:
            return None
        metadata = list(self.metadata)
        try:
            keep, others = self._decoded(operators.others, path)
        except TraceFormatError:  # its position is counted in the whole block
            return None
        if len(operators.rows) + len(keep) != operators.event_count:  # some have another layout
            self.metadata = metadata
            return None
        self.count += operators.event_count
        return _merged(operators, self._operator_columns(operators.columns), keep, others)

    def _operator_columns(self, columns: Columns) -> Columns:
        codes = {"label": columns["label"], "forward": self.args.forward_codes(columns["forward"])}
        if (columns["inputs"] >= 0).any():
            codes["inputs"] = columns["inputs"]
        times = {name: columns[name] for name in ("ts", "dur", "sequence_id")}
        return times | {name: column.astype(np.int32) for name, column in codes.items()}

    def _decoded(self, block: bytes, path: Path) -> tuple[Flags, Columns]:
        """Decode a JSON list of events; return which of them to keep, and the columns of these."""
        if not self._is_mixed:
            with suppress(msgspec.ValidationError):
                if decoded := self._cpu_events(decode_block(block, _CPU_EVENTS, path)):
                    return decoded
        try:
            return self._mixed_events(decode_block(block, _EVENTS, path))
        except msgspec.ValidationError as error:
            msg = (
                f"{path} is not a Kineto trace: one of its events, counted from event {self.count}, has an unexpected "
                f"structure ({error})."
            )
            raise TraceFormatError(msg) from error

    def _cpu_events(self, events: list[CpuEvent]) -> tuple[Flags, Columns] | None:
        """Read a block of events of the common form; None if some have to be decoded in another way."""
        label, action, _ = self.labels.look_up(events)
        if action.max(initial=0) > KEEP:
            return None
        keep = action == KEEP
        if not keep.all():
            events, label = list(compress(events, keep.tolist())), label[keep]
        return keep, _columns(events, label, self.args.read([event.args for event in events], CPU_ARGS))

    def _mixed_events(self, events: list[Event]) -> tuple[Flags, Columns]:
        """Read a block in which some events are not of the common form."""
        label, action, layout = self.labels.look_up(events)
        self.metadata += _metadata(list(compress(events, (action == METADATA).tolist())))
        keep = (action == KEEP) | (action == KEEP_UNKNOWN)
        if not keep.all():
            events, label, layout = list(compress(events, keep.tolist())), label[keep], layout[keep]
        self._is_mixed = bool((layout != CPU_LAYOUT).any())
        return keep, _columns(events, label, self._mixed_args(events, layout))

    @property
    def names(self) -> list[str]:
        """The distinct names in the order of their codes."""
        return list(self.labels.names)

    @property
    def name(self) -> Ints:
        """The name of each event, an index into `names`."""
        name: Ints = np.array(self.labels.name, np.int64)[self.column("label")]
        return name

    @property
    def groups(self) -> list[EventGroup]:
        """The distinct groups in the order of their codes."""
        return [EventGroup(*key) for key in self.labels.groups]

    @property
    def group(self) -> Ints:
        """The group of each event, an index into `groups`."""
        group: Ints = np.array(self.labels.group, np.int64)[self.column("label")]
        return group

    def column(self, name: str) -> Ints:
        """Return an integer column of all blocks, read-only, with `MISSING` or -1 for blocks that lack it."""
        default, rows = MISSING if name in NUMBERS.values() else -1, sum(len(block["ts"]) for block in self.blocks)
        if not any(name in block for block in self.blocks):
            return np.broadcast_to(np.int64(default), rows)
        column, end = np.full(rows, default, np.int64), 0
        for block in self.blocks:
            start, end = end, end + len(block["ts"])
            if name in block:
                column[start:end] = block[name]
        return column

    def _mixed_args(self, events: Sequence[Event], layout: Codes) -> Columns:
        """Read args of several layouts."""
        ids, merged = [event.id for event in events], Columns()
        if ids.count(None) < len(ids):
            layout = np.where([number is not None for number in ids], OTHER_LAYOUT, layout)
        others = [np.flatnonzero(layout == OTHER_LAYOUT)]
        for number in np.unique(layout[layout != OTHER_LAYOUT]).tolist():
            rows = np.flatnonzero(layout == number)
            parts, unfit = self._decoders[number].decode([events[row].args for row in rows.tolist()])
            others.append(rows[unfit])
            for part in parts:
                _scatter(merged, self.args.read(part.args, part.layout), rows[part.positions], len(events))
        rows = np.sort(np.concatenate(others))
        _scatter(merged, self.args.read_any(_any_args([events[row] for row in rows.tolist()])), rows, len(events))
        return merged


_ARGS_LIST = msgspec.json.Decoder(list[dict[str, msgspec.Raw] | None])


def _any_args(events: Sequence[Event]) -> list[dict[str, msgspec.Raw]]:
    decoded = _ARGS_LIST.decode(b"[%b]" % b",".join([event.args for event in events]))
    return [(args or {}) | _unknown_fields(event) for args, event in zip(decoded, events, strict=True)]


def _metadata(events: Sequence[Event]) -> list[MetadataEvent]:
    """Return the distinct events in the order of their last occurrence, since later ones replace earlier ones."""
    distinct = dict.fromkeys((event.name, event.pid, event.tid, bytes(event.args)) for event in reversed(events))
    return [
        MetadataEvent(name, pid, tid, msgspec.json.decode(args, type=dict[str, Any]))
        for name, pid, tid, args in reversed(distinct)
    ]


def _unknown_fields(event: Event) -> dict[str, msgspec.Raw]:
    """Return the phase and category that no column can express, and the id, as attributes."""
    fields: dict[str, int | str] = {}
    if event.ph not in COMMON_PHASES:
        fields["ph"] = event.ph
    if event.cat and not is_known(event.cat):
        fields["cat"] = event.cat
    if event.id is not None:
        fields["id"] = event.id
    return {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in fields.items()}


def _columns(events: Sequence[Event | CpuEvent], label: Codes, args: Columns) -> Columns:
    times = {name: exact_nanoseconds(list(map(attrgetter(name), events))) for name in ("ts", "dur")}
    return {"label": label, **times, **args}


def _merged(operators: Operators, columns: Columns, keep: Flags, others: Columns) -> Columns:
    """Return the columns of operators and of the other events that are kept, in the order of the file."""
    if not keep.any():
        return columns
    is_kept = np.ones(operators.event_count, np.bool_)
    other_rows = np.delete(np.arange(operators.event_count), operators.rows)
    is_kept[other_rows] = keep
    row = np.cumsum(is_kept) - 1
    merged = Columns()
    _scatter(merged, columns, row[operators.rows], row[-1] + 1)
    _scatter(merged, others, row[other_rows[keep]], row[-1] + 1)
    return merged


def _scatter(target: Columns, columns: Columns, rows: Ints, length: int) -> None:
    for name, values in columns.items():
        if name not in target:
            target[name] = np.full(length, MISSING if values.dtype == np.int64 else -1, values.dtype)
        target[name][rows] = values
