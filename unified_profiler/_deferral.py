"""Setting cycles aside while the training goes on, and taking them up again at the end of the run."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Generator
from pathlib import Path

from unified_profiler._finishing import EndedCycle
from unified_profiler._pending import PendingCycles, store


class Deferral:
    """The cycles that one Profiler has set aside.

    Args:
        folder: Where they wait, so that whoever reads the run can finish them should this process not come to it;
            None for a temporary directory, which does not outlive the process.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._pending: PendingCycles | None = None
        self._numbers: list[int] = []
        self._removal: weakref.finalize[[Path, int], Deferral] | None = None

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
        if pending is None:
            return
        try:
            pending.announce()
            while self._numbers:
                yield self._numbers[0], pending.folder_of(self._numbers[0])
                del self._numbers[0]
            pending.remove_all()
            if self._removal is not None:
                self._removal.detach()
        finally:
            self.release()
        self._pending = None

    def release(self) -> None:
        """Let others finish them."""
        if self._pending is not None:
            self._pending.owner.release()

    def leave_to_parent(self) -> None:
        """Have no part in it, as a forked child."""
        if self._pending is not None:
            self._pending.owner.forget()

    def _held(self) -> PendingCycles:
        if self._pending is None:
            self._pending = PendingCycles(self._folder or self._temporary())
        self._pending.own()
        return self._pending

    def _temporary(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="unified-profiler-"))
        self._removal = weakref.finalize(self, _remove, folder, os.getpid())
        return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a forked child exits, too
        shutil.rmtree(folder, ignore_errors=True)
