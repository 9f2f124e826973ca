"""Measures the CPU time of child processes, which are not recorded, for a hint to the user."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from unified_profiler.launch.post_import import ImportWatch
from unified_profiler.presentation.units import format_time
from unified_profiler.spi.patching import Invoke, wrap_method

_SHARE = 0.25
"""Children are mentioned if they used at least this fraction of the CPU time of the process itself."""
_MAX_NAMES = 3


class Children:
    """Counts the processes that a script starts, and measures the CPU time of all that have ended.

    Helpers are not mentioned: daemons, such as the workers of data loaders and pools, and processes that a framework
    starts, such as the compilers of torch.compile and the writer of MindSpore's summaries.
    """

    def __init__(self, frameworks: Collection[str] = ()) -> None:
        self._frameworks = frozenset(frameworks)
        self._helpers = 0
        self._names: Counter[str] = Counter()
        self._cpu_at_start = _cpu_seconds()

    @contextmanager
    def watched(self, imports: ImportWatch) -> Iterator[None]:
        """Count the processes started in the block."""
        with ExitStack() as patches:
            imports.when_imported(
                "multiprocessing.process",
                lambda module: patches.callback(wrap_method(module.BaseProcess, "start", self._process_starts)),
            )
            imports.when_imported(
                "subprocess",
                lambda module: patches.callback(wrap_method(module.Popen, "__init__", self._program_starts)),
            )
            yield

    def hints(self) -> Iterator[str]:
        """Return a hint if a lot of work ran in child processes."""
        own, children = (now - before for now, before in zip(_cpu_seconds(), self._cpu_at_start, strict=True))
        if not children or children < _SHARE * own or (self._helpers and not self._names):
            return
        names = ", ".join(f"{count} of {name}" for name, count in list(self._names.items())[:_MAX_NAMES])
        yield (
            f"Child processes{names and f' ({names})'} used {format_time(children * 1e9)} of CPU time, this process "
            f"{format_time(own * 1e9)}. "
            "Their work is not recorded: use Profiler in the function that they run, or start the ranks with a "
            "launcher such as torchrun."
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
            self._names[name] += 1


def _package(module: str) -> str:
    return module.partition(".")[0]


def _starter(frame: FrameType | None) -> str:
    """Return the module that starts a process: the nearest one outside the standard library and the profiler."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if _package(module) not in sys.stdlib_module_names and not module.startswith("unified_profiler"):
            return module
        frame = frame.f_back
    return ""


def _cpu_seconds() -> tuple[float, float]:
    """Return the CPU time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system
