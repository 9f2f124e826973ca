"""Where things that go wrong while profiling end up: kept, logged once, and never in the way of the training."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unified_profiler.masking import mask_message
from unified_profiler.model.plain import text_of
from unified_profiler.model.records import Failure
from unified_profiler.model.text import storable

logger = logging.getLogger("unified_profiler")


@dataclass
class Outcome:
    """How a guarded block ended."""

    failed: bool = False


_MOST_FAILURES = 100


class FaultLog:
    """Keeps failures; in strict mode the first one is raised when the facade's call ends.

    A failure that repeats within its cycle is counted, and beyond a hundred different ones all further are.
    """

    def __init__(self, *, strict: bool) -> None:
        self.failures: list[Failure] = []
        self._strict = strict
        self._pending: Exception | None = None
        self._logged: set[tuple[str, str, str]] = set()
        self._places: dict[tuple[object, ...], int] = {}
        self._last = 0

    @contextmanager
    def guard(
        self, source: str, action: str, *, cycle: int | None = None, step: int | None = None
    ) -> Iterator[Outcome]:
        """Run a block whose exceptions become failures; the outcome says afterwards whether one did.

        An interruption of the program goes on, also if code in the block replaced it by an exception of its own:
        `shutil.rmtree` does so, which then closes a file twice.
        """
        outcome, handled = Outcome(), sys.exc_info()[1]
        try:
            yield outcome
        except Exception as error:  # noqa: BLE001  whatever a native profiler or a handler raises stays here
            outcome.failed = True
            for cause in _causes(error, until=handled):
                if isinstance(cause, KeyboardInterrupt | SystemExit):
                    raise cause  # noqa: B904  the error that replaced it is of no interest
            self.report(source, action, error, cycle=cycle, step=step)

    def report(
        self, source: str, action: str, error: Exception, *, cycle: int | None = None, step: int | None = None
    ) -> None:
        """Keep a failure, and log it the first time it happens."""
        text = storable(f"{type(error).__name__}: {mask_message(text_of(error))}")
        self._keep(Failure(source=source, action=action, error=text, cycle=cycle, step=step))
        self._pending = self._pending or error
        if (source, action, text) in self._logged or self._strict or len(self._logged) >= _MOST_FAILURES:
            return
        self._logged.add((source, action, text))
        logger.error("%s failed to %s (the program goes on, see Profiler.failures): %s", source, action, text)

    def add_to_last(self, *, kept: Path) -> None:
        """Add to the last failure where the native files are."""
        self.failures[self._last] = self.failures[self._last].model_copy(update={"kept": str(kept)})
        logger.error("Its native files are kept in %s", kept)

    def raise_if_strict(self) -> None:
        """Raise what came up since the last call, in strict mode."""
        error, self._pending = self._pending, None
        if error is not None and self._strict:
            raise error

    def _keep(self, failure: Failure) -> None:
        key: tuple[object, ...] = (failure.source, failure.action, failure.error, failure.cycle)
        if key not in self._places and len(self.failures) >= _MOST_FAILURES:
            key = ()
            failure = Failure(source="profiler", action="keep all failures", error="More failures than are kept.")
        if key in self._places:
            self._last = self._places[key]
            before = self.failures[self._last]
            self.failures[self._last] = before.model_copy(update={"count": before.count + 1})
            return
        self._last = self._places[key] = len(self.failures)
        self.failures.append(failure)


def _causes(error: BaseException, *, until: BaseException | None) -> Iterator[BaseException]:
    """Yield the exceptions that were being handled when this one was raised, up to one that was so before."""
    cause = error.__context__
    while cause is not None and cause is not until:
        yield cause
        cause = cause.__context__
