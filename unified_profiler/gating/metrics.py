"""What can be judged: the wall time of steps, operators, regions, API calls and memory."""

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
from unified_profiler.gating.memory import memory_of
from unified_profiler.gating.named import NamedTimes, Regions, Rows
from unified_profiler.gating.series import OfRank, durations
from unified_profiler.keywords import did_you_mean
from unified_profiler.model.run import Run

QUANTILES = (0.25, 0.1, 0.5)
"""A slower program is slower at all of them; load on the machine leaves the fast steps alone. The first one is told."""
_TIME_BETWEEN_RUNS = 0.01
_SELDOM = 0.05
"""Part of the steps that lack something, from which on means are compared: quantiles of zeros say nothing."""
_LEAST_NS = 1_000.0
_LEAST_BYTES = float(2**20)
_MOST_NEAR = 3

_KINDS: dict[str, Callable[[], Sequence[NamedTimes]]] = {
    "op": lambda: [Rows("name"), Rows("op"), Rows("origin")],
    "region": lambda: [Regions()],
    "api": lambda: [Rows("api")],
}
"""What a name may be; the first is taken that both sides have."""


@dataclass(frozen=True)
class Metric:
    """One thing to judge, found in the runs."""

    name: str
    kind: str
    of_rank: OfRank
    unit: Literal["ns", "bytes"] = "ns"
    by: str | None = None
    """The level of `diff` that has its row."""
    row: str | None = None

    @property
    def between(self) -> float:
        """How much runs of one program are expected to differ as a whole, as a standard deviation of the logarithm."""
        return 0.0 if self.unit == "bytes" else _TIME_BETWEEN_RUNS

    @property
    def least(self) -> float:
        """The smallest change that is worth a word, whatever part of the whole it is."""
        return _LEAST_BYTES if self.unit == "bytes" else _LEAST_NS

    def statistics(self, values: Times) -> Sequence[Statistic]:
        """Return what of some steps is compared."""
        if self.unit == "bytes":
            return [np.max]
        if len(values) and float((values <= 0).mean()) > _SELDOM:
            return [np.mean]
        return [partial(_quantile, q) for q in QUANTILES]


def _quantile(q: float, values: Times) -> float:
    return float(np.quantile(values, q))


def metric_of(text: str, baseline: Sequence[Run], candidate: Sequence[Run]) -> Metric:
    """Find what a text such as `op:aten::mm` stands for.

    Raises:
        ConfigurationError: There is no such metric, or one side lacks what it names.
    """
    kind, colon, name = text.partition(":")
    if text == "step":
        return Metric(text, kind, durations)
    if text == "memory":
        return Metric(text, kind, memory_of(baseline, candidate), unit="bytes")
    if kind in _KINDS and colon and name:
        return _named(text, kind, name, (baseline, candidate))
    sorts = ["step", "memory", *(f"{kind}:NAME" for kind in _KINDS)]
    words = ["step", "memory", *_KINDS]
    hint = "" if kind in words else did_you_mean(kind, words)
    msg = f"`metric` must be one of {', '.join(sorts)}; found {text!r}.{hint}"
    raise ConfigurationError(msg)


def _named(text: str, kind: str, name: str, sides: Sequence[Sequence[Run]]) -> Metric:
    known: tuple[set[str], set[str]] = (set(), set())
    for sort in _KINDS[kind]():
        names = [sort.names(side) for side in sides]
        if all(name in each for each in names):
            return Metric(text, kind, sort.of_rank(name, sides), by=sort.by, row=name)
        for everything, some in zip(known, names, strict=True):
            everything.update(some)
    raise ConfigurationError(_missing(kind, name, *known))


def _missing(kind: str, name: str, baseline: set[str], candidate: set[str]) -> str:
    """Say who lacks a name, and which names are like it."""
    what = {"op": "operator", "region": "region", "api": "API call"}[kind]
    if name in baseline ^ candidate:
        label, other = ("candidate", "baseline") if name in baseline else ("baseline", "candidate")
        return (
            f"The {label} has no {what} {name!r} in its recorded steps and the {other} has, so there is no ratio to "
            "judge. `unified-profiler diff` lists what has no counterpart; judge `step` to have it counted."
        )
    everything = sorted(baseline | candidate)
    near = get_close_matches(name, everything, n=_MOST_NEAR, cutoff=0.4)
    hint = f" Near it are {', '.join(map(repr, near))}." if near else f" They have {len(everything)} others."
    how = {"api": " Record with Profiler(api=True).", "region": " Mark it with Profiler.region()."}.get(kind, "")
    return f"The recorded steps of neither side have the {what} {name!r}.{hint}{how}"
