"""Base class of the callbacks of all trainers."""

from __future__ import annotations

from typing import Any, ClassVar

from unified_profiler.errors import ConfigurationError
from unified_profiler.integrations._driver import StepDriver
from unified_profiler.keywords import check_keywords, keywords_of
from unified_profiler.model.records import StepSignal
from unified_profiler.profiler import Profiler


class StepCallback:
    """Drives a Profiler by the calls of a trainer. Subclasses implement the methods that their trainer calls.

    Args:
        profiler: The Profiler to drive.
        by: The unit of a step, one of `UNITS`.
        steps: Instead of a schedule: the first and the last step to record, both included, counted from 0.
        **options: Instead of a Profiler: keywords to create one.

    Raises:
        ConfigurationError: Both a Profiler and keywords were given, or a wrong value.
        ArgumentError: Neither the callback nor Profiler has such a keyword.
    """

    UNITS: ClassVar[tuple[str, ...]]

    def __init__(
        self, profiler: Profiler | None = None, *, by: str, steps: tuple[int, int] | None = None, **options: Any
    ) -> None:
        if by not in self.UNITS:
            *others, last = (f'"{unit}"' for unit in self.UNITS)
            msg = f"`by` must be {', '.join(others)} or {last}; found {by!r}."
            raise ConfigurationError(msg)
        check_keywords(type(self).__name__, options, [*keywords_of(type(self).__init__), *keywords_of(Profiler)])
        self.by = by
        self._driver = StepDriver(profiler, steps=steps, **options)

    @property
    def profiler(self) -> Profiler:
        """The Profiler, with its traces."""
        return self._driver.profiler

    def _begin(self, stage: str, signal: str) -> None:
        """Begin a stage; the outermost one sets the signal of the trace."""
        if self._driver.stage is None and self.profiler.level:
            self.profiler.step_signal = StepSignal(name=signal)
        self._driver.begin(stage)

    def _end_unit(self, stage: str, unit: str) -> None:
        """End a step if it consists of such a unit."""
        if self.by == unit:
            self._driver.step(stage)

    def _end_whole(self, stage: str) -> None:
        """End a stage that is one step by epoch."""
        self._end_unit(stage, "epoch")
        self._driver.end(stage)
