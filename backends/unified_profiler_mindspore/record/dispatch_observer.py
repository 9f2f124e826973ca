"""Observes the shapes of operators that PyNative mode dispatches, which MindSpore's profiler does not record.

MindSpore calls a `MsDispatchMode` for each operator that its thread dispatches, gradients included. MindSpore aborts
the process if a mode is on the stack of a thread that ends. It is therefore entered on the main thread only, and left
before the interpreter exits.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import mindspore

from unified_profiler.errors import NativeProfilerError
from unified_profiler_mindspore.read.host.eager_calls import OBSERVED
from unified_profiler_mindspore.read.note import OperatorCall, OperatorCalls
from unified_profiler_mindspore.record import native

_TRIES = 3
"""Attempts to leave the mode: each error of the program's kernels is raised once instead of leaving."""

_MISSING = "The shapes of MindSpore's operators in PyNative mode will be missing: %s"

logger = logging.getLogger("unified_profiler")


class DispatchObserver:
    """Observes operators from `begin` to `end`, unless the program has entered a dispatch mode: modes leave in order.

    Operators of other threads are not observed, but their kernels are: then there are more kernels than operators.
    """

    def __init__(self) -> None:
        """Create an observer that is not active yet."""
        self._positions: dict[OperatorCall, int] = {}
        self._order: list[int] = []
        self._is_complete = False
        self._is_observing = False
        self._is_in_mode = False

    def begin(self) -> None:
        """Start observing if possible; otherwise MindSpore is recorded without shapes and FLOPs of operators."""
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            mode, depth = native.dispatch_mode(self._dispatch), native.dispatch_depth()
        except NativeProfilerError as error:
            logger.warning(_MISSING, error)
            return
        if depth == 0:
            self._is_complete = self._is_observing = self._is_in_mode = True
            atexit.register(self._leave_quietly)
            mode.__enter__()

    def end(self) -> OperatorCalls | None:
        """Leave the mode and return the operators, None if they were not observed completely.

        Another thread cannot leave the mode; the next operator of the main thread does.
        """
        self._is_observing = False
        if threading.current_thread() is threading.main_thread():
            self._leave_quietly()
        return OperatorCalls(tuple(self._positions), tuple(self._order)) if self._is_complete else None

    def _leave_quietly(self) -> None:
        for _ in range(_TRIES):
            with suppress(Exception):
                self._leave()

    def _leave(self) -> None:
        """Leave the mode, unless the program has since entered another, which has to be left first."""
        depth = native.dispatch_depth() if self._is_in_mode else 0
        if depth == 1:
            native.leave_dispatch_mode()
        if depth <= 1:
            self._is_in_mode = False
            atexit.unregister(self._leave_quietly)

    def _dispatch(self, operator: Any, args: tuple[Any, ...]) -> Any:
        result = operator(*args)
        if not self._is_observing:
            self._leave()  # an error of the program's own kernels is raised in the program
        elif operator.name in OBSERVED:
            self._record(operator.name, args, result)
        return result

    def _record(self, name: str, args: Sequence[Any], result: Any) -> None:
        """Record an operator; one of unexpected form ends observing, but never stops the program."""
        if len(args) == 3 and isinstance(args[1], str):  # a Primitive, its name and its inputs
            args = args[2]
        try:
            call = OperatorCall(name, tuple(map(_shape, args)), tuple(result.shape))
            self._order.append(self._positions.setdefault(call, len(self._positions)))
        except Exception as error:  # noqa: BLE001  this runs within the program's own call
            self._is_complete = self._is_observing = False
            logger.warning(_MISSING, error)


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if isinstance(value, mindspore.Tensor) else None
