"""Calls as they end: four numbers each in a buffer of their thread, and every text once. Nothing of a call is kept.

A million calls take some 40 MB, which the garbage collector need not look through.
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

from unified_profiler.model.columns import Index, text
from unified_profiler.model.schema import EventTable, Kind, Layer, empty_table, event_table
from unified_profiler.model.text import storable
from unified_profiler.recording.api.call_texts import as_attributes
from unified_profiler.recording.own_threads import on_own_thread

if TYPE_CHECKING:
    from typing_extensions import Self

ROW = Struct("4q")
"""Of each call: number of what was called, start, end, number of the text of its arguments."""
BLOCK = 1 << 16
"""Calls after which what a thread has recorded is packed."""
NO_TEXT = -1
UNRECORDED = -1
"""Stands for a call that is not recorded itself, but whose inside is none of the user's."""

Ints = npt.NDArray[np.int64]


class Called(NamedTuple):
    """What was called."""

    name: str
    kind: Kind
    framework: str
    module: str | None = None
    """The path of a module."""


class Open(NamedTuple):
    """A call that has not ended yet."""

    code: int
    start_ns: int
    text: str | None
    module_code: int = UNRECORDED
    key: object = None
    """What the call is known by to hooks that tell its end."""


class Block:
    """Calls of one thread that ended."""

    __slots__ = ("rows", "texts")

    def __init__(self) -> None:
        self.rows = bytearray()
        self.texts = Index()

    def add(self, code: int, start_ns: int, end_ns: int, text: str | None) -> None:
        """Note a call."""
        self.rows += ROW.pack(code, start_ns, end_ns, NO_TEXT if text is None else self.texts[text])

    def packed(self) -> _Packed:
        """Return the calls in less space."""
        numbers = np.frombuffer(bytes(self.rows), np.int64).reshape(-1, 4)
        return _Packed(numbers, pa.array([as_attributes(text) for text in list(self.texts)], pa.string()))


@dataclass(frozen=True)
class _Packed:
    """Calls of one thread, packed."""

    numbers: Ints
    texts: pa.Array
    """As JSON."""


class ThreadCalls:
    """The calls of one thread."""

    __slots__ = ("block", "methods", "modules", "name", "open", "packed", "tid")

    def __init__(self) -> None:
        self.tid = threading.get_native_id()
        self.name = storable(threading.current_thread().name)
        self.open: list[tuple[Any, ...]] = []
        """Calls under way, the outermost first: `Open`, or the first fields of it."""
        self.methods: set[tuple[int, str]] = set()
        """Object and name of each method call under way that is named after its object."""
        self.modules: list[tuple[Any, str]] = []
        """Modules under way, for whoever finds out their paths."""
        self.block = Block()
        self.packed: list[_Packed] = []

    def pack(self) -> None:
        """Pack what was recorded so far."""
        block, self.block = self.block, Block()
        self.packed.append(block.packed())

    def call_count(self) -> int:
        """Return how many calls are recorded."""
        return len(self.block.rows) // ROW.size + sum(len(packed.numbers) for packed in self.packed)

    def clear(self) -> None:
        """Forget what was recorded."""
        self.block, self.packed = Block(), []

    def take(self, end_ns: int) -> list[_Packed]:
        """Return what was recorded, with the calls under way as if they ended now, and forget it."""
        under_way = [Open(*fields) for fields in list(self.open)]
        self.pack()
        packed, self.packed = self.packed, []
        ended = {(code, start) for code, start, _, _ in packed[-1].numbers[-len(under_way) - 1 :].tolist()}
        rows = [
            (code, call.start_ns, end_ns, 0)
            for call in under_way
            for code in (call.module_code, call.code)
            if code != UNRECORDED and (code, call.start_ns) not in ended
        ]
        unfinished = pa.array([as_attributes("", finished=False)], pa.string())
        return [*packed, _Packed(np.array(rows, np.int64).reshape(-1, 4), unfinished)]


class _NoRows(bytearray):
    """The rows of a thread of the profiler's: nothing is kept."""

    def __iadd__(self, row: Any) -> Self:  # type: ignore[misc]  # as that of bytearray itself
        return self


class CallLog:
    """The calls of all threads but the profiler's own."""

    def __init__(self) -> None:
        self.called: list[Called] = []
        self._codes: dict[Called, int] = {}
        self._threads: list[ThreadCalls] = []
        self._lock = threading.Lock()
        log = self

        class Local(threading.local):
            def __init__(self) -> None:
                self.calls = log._new_thread()

        self.local = Local()
        """`local.calls` are the calls of the current thread."""

    def code(self, called: Called) -> int:
        """Return the number of something that can be called."""
        with self._lock:
            code = self._codes.setdefault(called, len(self.called))
            if code == len(self.called):
                self.called.append(called)
            return code

    def call_count(self) -> int:
        """Return how many calls are recorded."""
        return sum(thread.call_count() for thread in list(self._threads))

    def clear(self) -> None:
        """Forget all calls but those under way."""
        for thread in list(self._threads):
            thread.clear()

    def take(self, start_ns: int, end_ns: int) -> EventTable:
        """Return the calls that began at or after a moment as events, and forget them.

        A call that is still under way ends at the given end, and says so.
        """
        tables = [self._events(thread, start_ns, end_ns) for thread in list(self._threads)]
        filled = [table for table in tables if len(table)]
        return pa.concat_tables(filled).unify_dictionaries() if filled else empty_table()

    def _new_thread(self) -> ThreadCalls:
        thread = ThreadCalls()
        if on_own_thread():
            thread.block.rows = _NoRows()
            return thread
        with self._lock:
            self._threads.append(thread)
        return thread

    def _events(self, thread: ThreadCalls, start_ns: int, end_ns: int) -> EventTable:
        blocks = thread.take(end_ns)
        codes = Index()
        texts = [np.append(codes.codes(block.texts.to_pylist()), NO_TEXT) for block in blocks]
        attributes = np.concatenate([table[block.numbers[:, 3]] for table, block in zip(texts, blocks, strict=True)])
        numbers = np.concatenate([block.numbers for block in blocks])
        inside = numbers[:, 1] >= start_ns
        numbers, attributes = numbers[inside], attributes[inside]
        return self._table(thread, numbers, attributes, list(codes))

    def _table(self, thread: ThreadCalls, numbers: Ints, attributes: Ints, texts: Sequence[str | None]) -> EventTable:
        code, called = numbers[:, 0], list(self.called)
        return event_table(
            {
                "name": text(code, [what.name for what in called]),
                "layer": Layer.API.value,
                "kind": text(code, [what.kind.value for what in called]),
                "direction": text(code, ["forward" if what.kind is Kind.MODULE else None for what in called]),
                "framework": text(code, [what.framework for what in called]),
                "start_ns": numbers[:, 1],
                "duration_ns": numbers[:, 2] - numbers[:, 1],
                "pid": os.getpid(),
                "tid": thread.tid,
                "thread": thread.name,
                "module": text(code, [what.module for what in called]),
                "attributes": text(attributes, texts),
            },
            rows=len(numbers),
        )
