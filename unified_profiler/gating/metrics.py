"""Metrics that a gate can judge: step wall time, operators, regions, API calls and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Literal

import numpy as np

from unified_profiler.comparison.noise import Times
from unified_profiler.errors import ConfigurationError
from unified_profiler.gating.intervals import Statistic
from unified_profiler.gating.memory import memory_measure
from unified_profiler.gating.named import DiffRowTimes, NamedTimes, RegionTimes
from unified_profiler.gating.series import Measure, step_durations
from unified_profiler.keywords import did_you_mean
from unified_profiler.model.run import Run

QUANTILES = (0.25, 0.1, 0.5)
"""A slower program is slower at all of them, while load spares the fastest steps. The first one is reported."""
_TIME_DEVIATION = 0.01
_RARE_SHARE = 0.05
"""Above this share of steps with zero time, means are compared, since low quantiles would be zero."""
_SMALLEST_NS = 1_000.0
_SMALLEST_BYTES = float(2**20)
_MOST_SUGGESTIONS = 3

_SOURCES: dict[str, Callable[[], Sequence[NamedTimes]]] = {
    "op": lambda: [DiffRowTimes("name"), DiffRowTimes("op"), DiffRowTimes("origin")],
    "region": lambda: [RegionTimes()],
    "api": lambda: [DiffRowTimes("api")],
}
"""Sources of named times by kind of metric; the first in which both sides have the name is used."""


@dataclass(frozen=True)
class Metric:
    """A metric that both sides have."""

    name: str
    kind: str
    measure: Measure
    unit: Literal["ns", "bytes"] = "ns"
    by: str | None = None
    """The grouping of `diff` that has its row."""
    row: str | None = None

    @property
    def run_deviation(self) -> float:
        """Expected standard deviation, of the logarithm, between whole runs of the same program."""
        return 0.0 if self.unit == "bytes" else _TIME_DEVIATION

    @property
    def smallest_change(self) -> float:
        """The smallest absolute change that can be a regression."""
        return _SMALLEST_BYTES if self.unit == "bytes" else _SMALLEST_NS

    def statistics(self, values: Times) -> Sequence[Statistic]:
        """Return the statistics by which blocks and runs are compared, for these values of both sides."""
        if self.unit == "bytes":
            return [np.max]
        if len(values) and float((values <= 0).mean()) > _RARE_SHARE:
            return [np.mean]
        return [partial(_quantile, q) for q in QUANTILES]


def _quantile(q: float, values: Times) -> float:
    return float(np.quantile(values, q))


def metric_of(text: str, baseline: Sequence[Run], candidate: Sequence[Run]) -> Metric:
    """Return the metric that a text such as `op:aten::mm` names.

    Raises:
        ConfigurationError: The text names no metric, or a side lacks it.
    """
    kind, colon, name = text.partition(":")
    if text == "step":
        return Metric(text, kind, step_durations)
    if text == "memory":
        return Metric(text, kind, memory_measure(baseline, candidate), unit="bytes")
    if kind in _SOURCES and colon and name:
        return _named_metric(text, kind, name, (baseline, candidate))
    forms = ["step", "memory", *(f"{kind}:NAME" for kind in _SOURCES)]
    kinds = ["step", "memory", *_SOURCES]
    hint = "" if kind in kinds else did_you_mean(kind, kinds)
    msg = f"`metric` must be one of {', '.join(forms)}; found {text!r}.{hint}"
    raise ConfigurationError(msg)


def _named_metric(text: str, kind: str, name: str, sides: Sequence[Sequence[Run]]) -> Metric:
    all_names: tuple[set[str], set[str]] = (set(), set())
    for source in _SOURCES[kind]():
        names = [source.names(side) for side in sides]
        if all(name in each for each in names):
            return Metric(text, kind, source.measure(name, sides), by=source.by, row=name)
        for side_names, more in zip(all_names, names, strict=True):
            side_names.update(more)
    raise ConfigurationError(_missing_message(kind, name, *all_names))


def _missing_message(kind: str, name: str, baseline: set[str], candidate: set[str]) -> str:
    """Name the side that lacks the name, or suggest similar names."""
    noun = {"op": "operator", "region": "region", "api": "API call"}[kind]
    if name in baseline ^ candidate:
        label, other = ("candidate", "baseline") if name in baseline else ("baseline", "candidate")
        return (
            f"The {label} has no {noun} {name!r} in its recorded steps and the {other} has, so there is no ratio to "
            "judge. `unified-profiler diff` lists what only one side has; judge `step` to include it."
        )
    every_name = sorted(baseline | candidate)
    similar = get_close_matches(name, every_name, n=_MOST_SUGGESTIONS, cutoff=0.4)
    hint = f" Similar names: {', '.join(map(repr, similar))}." if similar else f" They have {len(every_name)} others."
    advice = {"api": " Record with Profiler(api=True).", "region": " Mark it with Profiler.region()."}.get(kind, "")
    return f"No recorded step of either side has the {noun} {name!r}.{hint}{advice}"
