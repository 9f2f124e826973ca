"""Changes of durations for `what_if`: which events and segments they refer to, and by which factor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from unified_profiler.analysis.ancestry import nearest
from unified_profiler.analysis.categories import categories, category_codes
from unified_profiler.analysis.columns import Flags, coded
from unified_profiler.analysis.critical_path.columns import KINDS, TraceColumns, kind_code
from unified_profiler.analysis.critical_path.construction import TraceGraph
from unified_profiler.errors import ConfigurationError
from unified_profiler.model.nesting import Ints

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Changes:
    """Factors of durations, by what they apply to: a kind of segment, or a name, pattern, operator or category."""

    factors: Mapping[str, float]

    @classmethod
    def checked(cls, changes: object) -> Changes:
        """Return changes.

        Raises:
            ConfigurationError: They are not a mapping from names to factors of at least 0.
        """
        if not isinstance(changes, Mapping) or not changes:
            msg = f'`changes` must be a mapping such as {{"aten::conv2d": 0.5}}; found {changes!r}.'
            raise ConfigurationError(msg)
        for name, factor in changes.items():
            number = isinstance(factor, (int, float)) and not isinstance(factor, bool)
            if not isinstance(name, str) or not number or not 0 <= factor < math.inf:
                msg = (
                    f"A change must be a name and a factor of at least 0: 0 for no time, 0.5 for half of it, 2 for "
                    f"twice as long; found {name!r}: {factor!r}."
                )
                raise ConfigurationError(msg)
        return cls(dict(changes))

    def matches(self, columns: TraceColumns, name: str) -> Flags:
        """Return the events that a name refers to: by name, pattern, canonical operator or category."""
        by_name = columns.name.where(lambda text: text == name or fnmatchcase(text, name))
        by_operator = coded(columns.events, "op").where(name.__eq__)
        if name not in categories():
            return by_name | by_operator
        category: Flags = category_codes(columns.events) == categories().index(name)
        return by_name | by_operator | (category & (columns.host | columns.work))

    def counts(self, trace: TraceGraph) -> dict[str, int]:
        """Return how many events or segments of a trace each change applies to."""
        kinds = np.concatenate([trace.kind[trace.graph.weight > 0], trace.edge_kind[trace.graph.lag > 0]])
        return {
            name: int((kinds == kind_code(name)).sum() if name in KINDS else self.matches(trace.columns, name).sum())
            for name in self.factors
        }

    def weights(self, trace: TraceGraph) -> Ints:
        """Return the changed durations of a graph's segments."""
        factor = np.ones(len(trace.row))
        of_event = self._event_factors(trace.columns)
        for rows in (trace.launch, trace.row):
            changed = (rows >= 0) & ~np.isnan(of_event[rows])
            factor = np.where(changed, of_event[rows], factor)
        return _scaled(trace.graph.weight, self._kind_factors(trace.kind, factor))

    def lags(self, trace: TraceGraph) -> Ints:
        """Return the changed lags between lanes; other ranks arrive as recorded."""
        of_event, loads = self._event_factors(trace.columns), trace.edge_kind == kind_code("data")
        changed = loads & ~np.isnan(of_event[trace.edge_row])
        factor = np.where(changed, of_event[trace.edge_row], 1.0)
        factor = self._kind_factors(trace.edge_kind, factor)
        return _scaled(trace.graph.lag, np.where(trace.arrival >= 0, 1.0, factor))

    def _event_factors(self, columns: TraceColumns) -> Floats:
        """Return the factor of each event, which is that of the innermost changed one around it; nan for none."""
        factor = np.full(len(columns.start), np.nan)
        for name, value in self.factors.items():
            if name not in KINDS:
                factor[self.matches(columns, name)] = value
        rows = nearest(np.arange(len(factor)), parent=columns.parent, wanted=~np.isnan(factor))
        return np.where(rows >= 0, factor[rows], np.nan)

    def _kind_factors(self, kind: Ints, factor: Floats) -> Floats:
        for name, value in self.factors.items():
            if name in KINDS:
                factor = np.where(kind == kind_code(name), value, factor)
        return factor


def _scaled(duration: Ints, factor: Floats) -> Ints:
    """Multiply durations, exactly where the factor is 1."""
    return np.where(factor == 1, duration, np.rint(duration * factor).astype(np.int64))
