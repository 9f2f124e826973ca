"""Processes that a script starts: what they do is not recorded, which is worth a hint where that is much."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from unified_profiler.launch.post_import import ImportWatch

_SHARE = 0.25
"""Children are mentioned if they used at least this part of the process's own CPU time."""
_MOST_NAMES = 3


class Children:
    """Counts the processes started by `multiprocessing`, and measures the CPU time of all that were waited for.

    Helpers are not mentioned: daemons, such as the workers of loaders and pools, and processes whose class is a
    framework's own, such as the writer of MindSpore's summaries.
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
        imports.when_imported("multiprocessing.process", lambda module: undo.append(self._watch(module)))
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

    def _watch(self, module: ModuleType) -> Any:
        owner = module.BaseProcess
        original = owner.start

        @functools.wraps(original)
        def start(process: Any) -> None:
            self._started(process)
            original(process)

        owner.start = start

        def undo() -> None:
            if owner.start is start:
                owner.start = original

        return undo

    def _started(self, process: Any) -> None:
        if process.daemon or type(process).__module__.partition(".")[0] in self._frameworks:
            self._helpers += 1
            return
        name = getattr(getattr(process, "_target", None), "__name__", type(process).__name__)
        self._names[name] = self._names.get(name, 0) + 1

    def _described(self) -> str:
        names = [f"{count} of {name}" for name, count in list(self._names.items())[:_MOST_NAMES]]
        return f" ({', '.join(names)})" if names else ""


def _cpu_seconds() -> tuple[float, float]:
    """Return the CPU time of this process and of the children that it has waited for."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system
