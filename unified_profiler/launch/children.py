"""Processes that a script starts: what they do is not recorded, which is worth a hint where that is much."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from unified_profiler.launch.post_import import ImportWatch
from unified_profiler.spi.patching import Invoke, wrap_method

_SHARE = 0.25
"""Children are mentioned if they used at least this part of the process's own CPU time."""
_MOST_NAMES = 3


class Children:
    """Counts the processes that a script starts, and measures the CPU time of all that were waited for.

    Helpers are not mentioned: daemons, such as the workers of loaders and pools, and processes that a framework
    starts, such as the compilers of torch.compile and the writer of MindSpore's summaries.
    """

    def __init__(self, frameworks: Collection[str] = ()) -> None:
        self._frameworks = frozenset(frameworks)
        self._helpers = 0
        self._names: dict[str, int] = {}
        self._own, self._theirs = _cpu_seconds()

    @contextmanager
    def watched(self, imports: ImportWatch) -> Iterator[None]:
        """Watch in a block."""
        undo: list[Any] = []
        imports.when_imported(
            "multiprocessing.process",
            lambda module: undo.append(wrap_method(module.BaseProcess, "start", self._process_starts)),
        )
        imports.when_imported(
            "subprocess", lambda module: undo.append(wrap_method(module.Popen, "__init__", self._program_starts))
        )
        try:
            yield
        finally:
            while undo:
                undo.pop()()

    def hints(self) -> Iterator[str]:
        """Say what is missing since it ran in other processes."""
        own, theirs = (now - before for now, before in zip(_cpu_seconds(), (self._own, self._theirs), strict=True))
        if theirs < _SHARE * own or (self._helpers and not self._names):
            return
        yield (
            f"Child processes{self._described()} used {theirs:.1f} s of CPU time, this process {own:.1f} s. What they "
            "did is not recorded: use Profiler in the function that they run, or start ranks by a launcher such as "
            "torchrun."
        )

    def _process_starts(self, invoke: Invoke, process: Any, _args: tuple[Any, ...]) -> Any:
        target = getattr(process, "_target", None)
        name = getattr(target, "__name__", type(process).__name__)
        self._count(name, is_helper=process.daemon or _package(type(process).__module__) in self._frameworks)
        return invoke()

    def _program_starts(self, invoke: Invoke, _popen: Any, _args: tuple[Any, ...]) -> Any:
        self._count("another program", is_helper=_package(_starter(sys._getframe(1))) in self._frameworks)
        return invoke()

    def _count(self, name: str, *, is_helper: bool) -> None:
        if is_helper:
            self._helpers += 1
        else:
            self._names[name] = self._names.get(name, 0) + 1

    def _described(self) -> str:
        names = [f"{count} of {name}" for name, count in list(self._names.items())[:_MOST_NAMES]]
        return f" ({', '.join(names)})" if names else ""


def _package(module: str) -> str:
    return module.partition(".")[0]


def _starter(frame: FrameType | None) -> str:
    """Return the module that starts a process: the nearest that is neither Python's own nor the profiler's."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if _package(module) not in sys.stdlib_module_names and not module.startswith("unified_profiler"):
            return module
        frame = frame.f_back
    return ""


def _cpu_seconds() -> tuple[float, float]:
    """Return the CPU time of this process and of the children that it has waited for."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system
