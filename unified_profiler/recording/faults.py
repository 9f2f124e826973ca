"""Collects errors of the profiler itself: each is kept and logged once, and none of them stops the training."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unified_profiler.errors import UnsupportedCapabilityError
from unified_profiler.masking import mask_message
from unified_profiler.model.plain import text_of
from unified_profiler.model.records import Failure
from unified_profiler.model.text import storable

logger = logging.getLogger("unified_profiler")


@dataclass
class GuardOutcome:
    """Whether a guarded block failed."""

    failed: bool = False


_MAX_FAILURES = 100


class FaultLog:
    """Keeps failures; in strict mode the first one is raised when the facade's call ends.

    A failure that repeats within its cycle is only counted, and so is every new one after the first hundred.
    """

    def __init__(self, *, strict: bool) -> None:
        self.failures: list[Failure] = []
        self._strict = strict
        self._pending: Exception | None = None
        self._logged: set[tuple[str, str, str]] = set()
        self._indices: dict[tuple[object, ...], int] = {}
        self._last = 0

    @contextmanager
    def guard(
        self, source: str, action: str, *, cycle: int | None = None, step: int | None = None
    ) -> Iterator[GuardOutcome]:
        """Run a block whose exceptions become failures; `outcome.failed` is set if there was one.

        KeyboardInterrupt and SystemExit pass through, even where code in the block replaced them by another exception,
        as `shutil.rmtree` does when it closes a file twice.
        """
        outcome, handled = GuardOutcome(), sys.exc_info()[1]
        try:
            yield outcome
        except Exception as error:  # noqa: BLE001  errors of native profilers and handlers end here
            outcome.failed = True
            for cause in _causes(error, until=handled):
                if isinstance(cause, KeyboardInterrupt | SystemExit):
                    raise cause  # noqa: B904  not `from` the error that replaced it
            self.report(source, action, error, cycle=cycle, step=step)

    def report(
        self, source: str, action: str, error: Exception, *, cycle: int | None = None, step: int | None = None
    ) -> None:
        """Keep a failure, and log its first occurrence."""
        text = storable(f"{type(error).__name__}: {mask_message(text_of(error))}")
        option = error.option if isinstance(error, UnsupportedCapabilityError) else None
        self._keep(Failure(source=source, action=action, error=text, cycle=cycle, step=step, option=option))
        self._pending = self._pending or error
        if (source, action, text) in self._logged or self._strict or len(self._logged) >= _MAX_FAILURES:
            return
        self._logged.add((source, action, text))
        if option is not None:
            logger.warning("%s", text_of(error))
            return
        logger.error("%s failed to %s (the program continues, see Profiler.failures): %s", source, action, text)

    def add_to_last(self, *, kept: Path) -> None:
        """Add the path of the native files to the last failure."""
        self.failures[self._last] = self.failures[self._last].model_copy(update={"kept": str(kept)})
        logger.error("Its native files are kept in %s", kept)

    def raise_if_strict(self) -> None:
        """In strict mode, raise the first error since the last call."""
        error, self._pending = self._pending, None
        if error is not None and self._strict:
            raise error

    def _keep(self, failure: Failure) -> None:
        key: tuple[object, ...] = (failure.source, failure.action, failure.error, failure.cycle)
        if key not in self._indices and len(self.failures) >= _MAX_FAILURES:
            key = ()
            failure = Failure(source="profiler", action="keep all failures", error="More failures than are kept.")
        if key in self._indices:
            self._last = self._indices[key]
            before = self.failures[self._last]
            self.failures[self._last] = before.model_copy(update={"count": before.count + 1})
            return
        self._last = self._indices[key] = len(self.failures)
        self.failures.append(failure)


def _causes(error: BaseException, *, until: BaseException | None) -> Iterator[BaseException]:
    """Yield the chain of `__context__` of an error, up to the exception that was handled before the block."""
    cause = error.__context__
    while cause is not None and cause is not until:
        yield cause
        cause = cause.__context__
