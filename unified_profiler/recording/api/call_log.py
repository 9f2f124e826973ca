"""Stores finished calls: four numbers each in a buffer of their thread, and every distinct text once.

No object of a call is kept. A million calls take about 40 MB, which the garbage collector does not scan.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.columns import Index, text_column
from unified_profiler.model.schema import EventTable, Kind, Layer, empty_table, event_table
from unified_profiler.model.text import storable
from unified_profiler.recording.api.call_texts import as_attributes
from unified_profiler.recording.own_threads import on_own_thread

if TYPE_CHECKING:
    from typing_extensions import Self

ROW = Struct("4q")
"""One call: number of the callee, start, end, number of the text of the arguments."""
BLOCK = 1 << 16
"""Number of calls of a thread after which they are packed."""
NO_TEXT = -1
UNRECORDED = -1
"""Marks a call that is not recorded, but within which calls are not made by user code."""

Ints = npt.NDArray[np.int64]


class Callee(NamedTuple):
    """A function or module that was called."""

    name: str
    kind: Kind
    framework: str
    module: str | None = None
    """The path of a module."""


class OpenCall(NamedTuple):
    """A call in progress."""

    code: int
    start_ns: int
    text: str | None
    module_code: int = UNRECORDED
    key: object = None
    """Identifies the call to hooks that report its end."""


class Block:
    """Finished calls of one thread."""

    __slots__ = ("rows", "texts")

    def __init__(self) -> None:
        self.rows = bytearray()
        self.texts = Index()

    def add(self, code: int, start_ns: int, end_ns: int, text: str | None) -> None:
        """Add a call."""
        self.rows += ROW.pack(code, start_ns, end_ns, NO_TEXT if text is None else self.texts[text])

    def packed(self) -> _PackedCalls:
        """Return the calls in a more compact form."""
        numbers = np.frombuffer(bytes(self.rows), np.int64).reshape(-1, 4)
        return _PackedCalls(numbers, pa.array([as_attributes(text) for text in list(self.texts)], pa.string()))


@dataclass(frozen=True)
class _PackedCalls:
    numbers: Ints
    texts: pa.Array
    """JSON objects with the arguments."""


class ThreadCalls:
    """The calls of one thread."""

    __slots__ = ("block", "methods", "modules", "name", "open", "packed", "tid")

    def __init__(self) -> None:
        self.tid = threading.get_native_id()
        self.name = storable(threading.current_thread().name)
        self.open: list[tuple[Any, ...]] = []
        """Calls in progress, the outermost first: `OpenCall`, or its first fields."""
        self.methods: set[tuple[int, str]] = set()
        """Object and name of each method call in progress that is named after its object."""
        self.modules: list[tuple[Any, str]] = []
        """Modules in progress with their paths, for `ModulePaths`."""
        self.block = Block()
        self.packed: list[_PackedCalls] = []

    def pack(self) -> None:
        """Pack the calls recorded so far."""
        block, self.block = self.block, Block()
        self.packed.append(block.packed())

    def call_count(self) -> int:
        """Return the number of recorded calls."""
        return len(self.block.rows) // ROW.size + sum(len(packed.numbers) for packed in self.packed)

    def clear(self) -> None:
        """Drop the recorded calls."""
        self.block, self.packed = Block(), []

    def take(self, end_ns: int) -> list[_PackedCalls]:
        """Return and drop the recorded calls, with the calls in progress cut at `end_ns`."""
        open_calls = [OpenCall(*fields) for fields in list(self.open)]
        self.pack()
        packed, self.packed = self.packed, []
        ended = {(code, start) for code, start, _, _ in packed[-1].numbers[-len(open_calls) - 1 :].tolist()}
        rows = [
            (code, call.start_ns, end_ns, 0)
            for call in open_calls
            for code in (call.module_code, call.code)
            if code != UNRECORDED and (code, call.start_ns) not in ended
        ]
        unfinished = pa.array([as_attributes("", finished=False)], pa.string())
        return [*packed, _PackedCalls(np.array(rows, np.int64).reshape(-1, 4), unfinished)]


class _DiscardingBuffer(bytearray):
    """The buffer of a thread of the profiler itself, whose calls are dropped."""

    def __iadd__(self, row: Any) -> Self:  # type: ignore[misc]  # as for bytearray itself
        return self


class CallLog:
    """The calls of all threads except those of the profiler itself."""

    def __init__(self) -> None:
        self.callees: list[Callee] = []
        self._codes: dict[Callee, int] = {}
        self._threads: list[ThreadCalls] = []
        self._lock = threading.Lock()
        log = self

        class Local(threading.local):
            def __init__(self) -> None:
                self.calls = log._new_thread()

        self.local = Local()
        """`local.calls` holds the calls of the current thread."""

    def code(self, callee: Callee) -> int:
        """Return the number of a function or module."""
        with self._lock:
            code = self._codes.setdefault(callee, len(self.callees))
            if code == len(self.callees):
                self.callees.append(callee)
            return code

    def call_count(self) -> int:
        """Return the number of recorded calls."""
        return sum(thread.call_count() for thread in list(self._threads))

    def clear(self) -> None:
        """Drop all finished calls."""
        for thread in list(self._threads):
            thread.clear()

    def take(self, start_ns: int, end_ns: int) -> EventTable:
        """Return the calls since `start_ns` as events and drop them; open calls are cut and marked unfinished."""
        tables = [self._events(thread, start_ns, end_ns) for thread in list(self._threads)]
        filled = [table for table in tables if len(table)]
        return pa.concat_tables(filled).unify_dictionaries() if filled else empty_table()

    def _new_thread(self) -> ThreadCalls:
        thread = ThreadCalls()
        if on_own_thread():
            thread.block.rows = _DiscardingBuffer()
            return thread
        with self._lock:
            self._threads.append(thread)
        return thread

    def _events(self, thread: ThreadCalls, start_ns: int, end_ns: int) -> EventTable:
        blocks = thread.take(end_ns)
        codes = Index()
        texts = [np.append(codes.codes(block.texts.to_pylist()), NO_TEXT) for block in blocks]
        attributes = np.concatenate([text[block.numbers[:, 3]] for text, block in zip(texts, blocks, strict=True)])
        numbers = np.concatenate([block.numbers for block in blocks])
        in_window = numbers[:, 1] >= start_ns
        return self._table(thread, numbers[in_window], attributes[in_window], list(codes))

    def _table(self, thread: ThreadCalls, numbers: Ints, attributes: Ints, texts: Sequence[str | None]) -> EventTable:
        code, callees = numbers[:, 0], list(self.callees)
        return event_table(
            {
                "name": text_column(code, [callee.name for callee in callees]),
                "layer": Layer.API.value,
                "kind": text_column(code, [callee.kind.value for callee in callees]),
                "direction": text_column(
                    code, ["forward" if callee.kind is Kind.MODULE else None for callee in callees]
                ),
                "framework": text_column(code, [callee.framework for callee in callees]),
                "start_ns": numbers[:, 1],
                "duration_ns": numbers[:, 2] - numbers[:, 1],
                "pid": os.getpid(),
                "tid": thread.tid,
                "thread": thread.name,
                "module": text_column(code, [callee.module for callee in callees]),
                "attributes": text_column(attributes, texts),
            },
            rows=len(numbers),
        )
