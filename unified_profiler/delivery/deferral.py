"""Stores ended cycles during the training, so that their traces can be made at the end of the run."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path

from unified_profiler.delivery.finishing import EndedCycle
from unified_profiler.delivery.pending import PendingCycles, store


class Deferral:
    """The stored cycles of one Profiler.

    Args:
        folder: Their location. In a run directory, a reader can finish them if this process does not.
    """

    def __init__(self, folder: Path) -> None:
        self._pending = PendingCycles(folder)
        self._numbers: list[int] = []

    def workdir(self, cycle: int) -> Path:
        """Return an empty directory for the native files of a cycle."""
        self._pending.own()
        folder = self._pending.folder_of(cycle)
        folder.mkdir()
        return folder

    def put(self, cycle: EndedCycle) -> None:
        """Store a cycle.

        Raises:
            TypeError, ValueError: It contains a value that cannot be stored.
            OSError: It cannot be written.
        """
        number = cycle.window.cycle
        self._pending.own()
        store(cycle, self._pending.folder_of(number))
        self._numbers.append(number)

    def take(self) -> Generator[tuple[int, Path], None, None]:
        """Yield number and folder of each stored cycle, which is forgotten when the next one is requested.

        Close the generator: it leaves the remaining cycles to readers of the run.
        """
        pending = self._pending
        try:
            pending.warn_if_large()
            while self._numbers:
                yield self._numbers[0], pending.folder_of(self._numbers[0])
                del self._numbers[0]
            pending.remove_folder()
        finally:
            self.release()

    def clear(self) -> None:
        """Remove the stored cycles."""
        for number in self._numbers:
            shutil.rmtree(self._pending.folder_of(number), ignore_errors=True)
        self._numbers.clear()

    def release(self) -> None:
        """Let readers of the run finish the cycles."""
        self._pending.owner.release()

    def leave_to_parent(self) -> None:
        """Give up the cycles in a forked child."""
        self._pending.owner.forget()
