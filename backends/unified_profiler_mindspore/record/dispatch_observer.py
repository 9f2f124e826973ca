"""DispatchObserver: notes the shapes of operators that PyNative mode dispatches, which its profiler does not record.

MindSpore calls a `MsDispatchMode` for each operator that its thread dispatches, gradients included. Such a mode must
not be on its thread's stack when the thread ends: MindSpore then aborts the process. So it is entered on the main
thread only, and left at the latest before the interpreter exits.
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
"""Leaving the mode raises an error of the program's kernels instead of leaving, once for each error."""

logger = logging.getLogger("unified_profiler")


class DispatchObserver:
    """Notes operators from `begin` to `end`, unless the program has a dispatch mode of its own: modes leave in order.

    Operators of other threads are not seen. Their kernels are recorded, so that there are more kernels than operators.
    """

    def __init__(self) -> None:
        """Observe nothing yet."""
        self._numbers: dict[OperatorCall, int] = {}
        self._order: list[int] = []
        self._is_complete = False
        self._is_observing = False
        self._is_in_mode = False

    def begin(self) -> None:
        """Begin to note, if it can be done: MindSpore is recorded without shapes and FLOPs of operators otherwise."""
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            mode, depth = native.dispatch_mode(self._dispatch), native.dispatch_depth()
        except NativeProfilerError as error:
            logger.warning("The shapes of MindSpore's operators in PyNative mode will not be known: %s", error)
            return
        if depth == 0:
            self._is_complete = self._is_observing = self._is_in_mode = True
            atexit.register(self._leave_quietly)
            mode.__enter__()

    def end(self) -> OperatorCalls | None:
        """Leave MindSpore as it was and return what was noted, None if it was not observed or not all of it.

        In another thread the mode cannot be left: the next operator of the main thread leaves it.
        """
        self._is_observing = False
        if threading.current_thread() is threading.main_thread():
            self._leave_quietly()
        return OperatorCalls(tuple(self._numbers), tuple(self._order)) if self._is_complete else None

    def _leave_quietly(self) -> None:
        for _ in range(_TRIES):
            with suppress(Exception):
                self._leave()

    def _leave(self) -> None:
        """Leave the mode, unless the program has entered another meanwhile, which has to be left first."""
        depth = native.dispatch_depth() if self._is_in_mode else 0
        if depth == 1:
            native.leave_dispatch_mode()
        if depth <= 1:
            self._is_in_mode = False
            atexit.unregister(self._leave_quietly)

    def _dispatch(self, operator: Any, args: tuple[Any, ...]) -> Any:
        result = operator(*args)
        if not self._is_observing:
            self._leave()  # an error of the program's own kernels goes on to the program
        elif operator.name in OBSERVED:
            self._note(operator.name, args, result)
        return result

    def _note(self, name: str, args: Sequence[Any], result: Any) -> None:
        """Note an operator; one that is not as expected makes all notes incomplete, and never stops the program."""
        if len(args) == 3 and isinstance(args[1], str):  # a Primitive, its name and its inputs
            args = args[2]
        try:
            call = OperatorCall(name, tuple(map(_shape, args)), tuple(result.shape))
            self._order.append(self._numbers.setdefault(call, len(self._numbers)))
        except Exception as error:  # noqa: BLE001  this runs within the program's own work
            self._is_complete = self._is_observing = False
            logger.warning("The shapes of MindSpore's operators in PyNative mode will not be known: %s", error)


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if isinstance(value, mindspore.Tensor) else None
