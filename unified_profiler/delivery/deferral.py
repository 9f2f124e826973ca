"""Setting cycles aside while the training goes on, and taking them up again at the end of the run."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path

from unified_profiler.delivery.finishing import EndedCycle
from unified_profiler.delivery.pending import PendingCycles, store


class Deferral:
    """The cycles that one Profiler has set aside.

    Args:
        folder: Where they wait. In a run directory whoever reads the run can finish them should this process not come
            to it.
    """

    def __init__(self, folder: Path) -> None:
        self._pending = PendingCycles(folder)
        self._numbers: list[int] = []

    def workdir(self, cycle: int) -> Path:
        """Return an empty directory for the native files of a cycle."""
        folder = self._held().folder_of(cycle)
        folder.mkdir()
        return folder

    def put(self, cycle: EndedCycle) -> None:
        """Set a cycle aside.

        Raises:
            TypeError, ValueError: It holds something that cannot be written down.
            OSError: It cannot be written.
        """
        number = cycle.window.cycle
        store(cycle, self._held().folder_of(number))
        self._numbers.append(number)

    def take(self) -> Generator[tuple[int, Path], None, None]:
        """Give number and folder of each cycle that is set aside; it is forgotten when the next one is asked for.

        To be closed: whatever is left of them then may be finished by whoever reads the run.
        """
        pending = self._pending
        try:
            pending.announce()
            while self._numbers:
                yield self._numbers[0], pending.folder_of(self._numbers[0])
                del self._numbers[0]
            pending.remove_all()
        finally:
            self.release()

    def clear(self) -> None:
        """Remove the cycles that are set aside."""
        for number in self._numbers:
            shutil.rmtree(self._pending.folder_of(number), ignore_errors=True)
        self._numbers.clear()

    def release(self) -> None:
        """Let others finish them."""
        self._pending.owner.release()

    def leave_to_parent(self) -> None:
        """Have no part in it, as a forked child."""
        self._pending.owner.forget()

    def _held(self) -> PendingCycles:
        self._pending.own()
        return self._pending
