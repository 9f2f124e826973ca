"""What the callbacks of all trainers share: a Profiler, the steps to record, and what a step is."""

from __future__ import annotations

from typing import Any, ClassVar

from unified_profiler.errors import ConfigurationError
from unified_profiler.integrations._driver import StepDriver
from unified_profiler.keywords import check_keywords, keywords_of
from unified_profiler.profiler import Profiler


class StepCallback:
    """Drives a Profiler by a trainer's calls. Subclasses have the methods that their trainer calls.

    Args:
        profiler: The Profiler to drive.
        by: What a step is, one of `UNITS`.
        steps: Instead of a schedule: the first and the last step to record, both included, counted from 0.
        **options: Instead of a Profiler: keywords to make one with.

    Raises:
        ConfigurationError: A Profiler and keywords were given, or a wrong value.
        ArgumentError: A keyword that neither the callback nor Profiler has.
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
