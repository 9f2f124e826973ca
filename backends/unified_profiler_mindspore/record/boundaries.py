"""Records the time spans of gradient computations and parameter updates, and the graphs that ran.

PyNative mode names its kernels by type alone, which does not indicate a direction: gradients are products and sums,
too. It also queues kernels, so that a boundary is a point in time only once everything queued before it has run. The
observer waits for that: four times in a usual step, and only while recording.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

from unified_profiler.errors import NativeProfilerError
from unified_profiler.spi.patching import Around, Invoke, Undo, wrap_method
from unified_profiler_mindspore.read.note import DirectionSpan
from unified_profiler_mindspore.record import native
from unified_profiler_mindspore.record.optimizer_search import optimizer_classes

BACKWARD, UPDATE = "backward", "update"

logger = logging.getLogger("unified_profiler")


class BoundaryObserver:
    """Records spans from `begin` to `end`, all of them or none.

    Kernels of two threads run concurrently, so that a span of one thread does not apply to kernels of the other. There
    are no spans if gradients or updates come from several threads, or if one of them failed with kernels in the queue.
    """

    def __init__(self) -> None:
        """Create an observer that is not active yet."""
        self.graphs: dict[str, None] = {}
        """MindSpore's names of the graphs that ran, in the order of their first run."""
        self._spans: list[DirectionSpan] = []
        self._threads: set[int] = set()
        self._is_complete = True
        self._undo: list[Undo] = []

    def begin(self) -> None:
        """Start observing. If this version of MindSpore lacks a patched method, it is recorded without spans."""
        try:
            for owner, name, around in self._patches():
                self._undo.append(wrap_method(owner, name, around))
        except (NativeProfilerError, AttributeError, TypeError) as error:
            logger.warning("The directions of MindSpore's operators will be missing: %s", error)
            self._is_complete = False
            self.end()

    def end(self) -> tuple[DirectionSpan, ...] | None:
        """Remove all patches and return the spans, None if they are incomplete."""
        while self._undo:
            self._undo.pop()()
        return tuple(self._spans) if self._is_complete and len(self._threads) <= 1 else None

    def _patches(self) -> Iterator[tuple[type, str, Around]]:
        executor = native.executor_class()
        yield executor, "grad", self._record_span(BACKWARD)
        yield executor, "set_jit_compile_phase", self._record_graph(0)
        yield native.graph_class(), "__call__", self._record_graph(1)
        for optimizer in optimizer_classes():
            yield optimizer, "__call__", self._record_span(UPDATE)

    def _record_span(self, direction: str) -> Around:
        def around(invoke: Invoke, called: Any, _: tuple[Any, ...]) -> Any:
            self._threads.add(threading.get_ident())
            native.wait_for_kernels()  # an error of the program's own kernels is raised in the program
            start_ns = time.time_ns()
            try:
                result = invoke()
                native.wait_for_kernels()
            except BaseException:
                self._is_complete = False
                raise
            optimizer = type(called).__name__ if direction == UPDATE else None
            self._spans.append(DirectionSpan(direction, start_ns, time.time_ns(), optimizer))
            return result

        return around

    def _record_graph(self, position: int) -> Around:
        """Return a wrapper that records the graph about to run, whose name is the argument at this position.

        MindSpore sets the phase of a function compiled by `ms.jit` right before it runs; an empty one names no graph.
        """

        def around(invoke: Invoke, _: Any, args: tuple[Any, ...]) -> Any:
            if len(args) > position and args[position]:
                self.graphs[str(args[position])] = None
            return invoke()

        return around
