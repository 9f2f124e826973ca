"""Borders: when gradients were computed and parameters updated, and which graphs ran, noted while something records.

PyNative mode names its kernels by their type alone, which says nothing of their direction: gradients are products and
sums, too. It queues kernels, so that a border is a time only once all that was queued before it has run. That is waited
for: four times in a usual step, and only while recording.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from unified_profiler.errors import NativeProfilerError
from unified_profiler.spi.patching import Around, Invoke, Undo, wrap_method
from unified_profiler_mindspore.read.note import Span
from unified_profiler_mindspore.record import native
from unified_profiler_mindspore.record.optimizer_search import OPTIMIZER_MODULES

BACKWARD, UPDATE = "backward", "update"

logger = logging.getLogger("unified_profiler")


class Borders:
    """Notes borders from `begin` to `end`, all of them or none.

    Kernels of two threads run side by side, and a border of one says nothing of those of the other: where gradients or
    updates come from more than one thread, nothing is told. Nor is it after one of them failed, with kernels queued.
    """

    def __init__(self) -> None:
        """Note nothing yet."""
        self.graphs: dict[str, None] = {}
        """What MindSpore calls the graphs that ran, in the order in which they ran first."""
        self._spans: list[Span] = []
        self._threads: set[int] = set()
        self._certain = True
        self._undo: list[Undo] = []

    def begin(self) -> None:
        """Begin to note. A MindSpore in which the places have moved is recorded without borders."""
        try:
            for owner, name, around in self._places():
                self._undo.append(wrap_method(owner, name, around))
        except (NativeProfilerError, AttributeError, TypeError) as error:
            logger.warning("The directions of MindSpore's operators will not be known: %s", error)
            self._certain = False
            self.end()

    def end(self) -> tuple[Span, ...] | None:
        """Leave MindSpore as it was and return what was noted, None where it cannot be told."""
        while self._undo:
            self._undo.pop()()
        return tuple(self._spans) if self._certain and len(self._threads) <= 1 else None

    def _places(self) -> Iterator[tuple[type, str, Around]]:
        executor = native.executor_class()
        yield executor, "grad", self._around(BACKWARD)
        yield executor, "set_jit_compile_phase", self._jit_runs
        yield native.graph_class(), "__call__", self._graph_runs
        for name in OPTIMIZER_MODULES:
            if name in sys.modules:
                yield sys.modules[name].Optimizer, "__call__", self._around(UPDATE)

    def _around(self, direction: str) -> Around:
        def around(invoke: Invoke, called: Any, _: tuple[Any, ...]) -> Any:
            self._threads.add(threading.get_ident())
            native.wait_for_kernels()  # an error of the program's own kernels goes on to the program
            start_ns = time.time_ns()
            try:
                result = invoke()
                native.wait_for_kernels()
            except BaseException:
                self._certain = False
                raise
            optimizer = type(called).__name__ if direction == UPDATE else None
            self._spans.append(Span(direction, start_ns, time.time_ns(), optimizer))
            return result

        return around

    def _graph_runs(self, invoke: Invoke, _: Any, args: tuple[Any, ...]) -> Any:
        if len(args) > 1:
            self.graphs[str(args[1])] = None
        return invoke()

    def _jit_runs(self, invoke: Invoke, _: Any, args: tuple[Any, ...]) -> Any:
        """Note which function that `ms.jit` compiled is about to run; MindSpore says so right before."""
        if args and args[0]:
            self.graphs[str(args[0])] = None
        return invoke()
