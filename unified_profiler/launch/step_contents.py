"""Counts the signals in each recorded step, and reports steps that are not ordinary iterations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.launch.detector import Signal
from unified_profiler.model.run import Run
from unified_profiler.model.schema import Kind, Layer
from unified_profiler.model.trace import Trace

_ADVICE = "Choose another signal with --step-signal."
_MAX_STEPS = 5


class StepContents:
    """Counts the signals in the current step, whether they end steps or not."""

    def __init__(self, *, all_signals: bool = True) -> None:
        """Start empty. If only one signal is received, the lack of a model's signal has no meaning."""
        self._all_signals = all_signals
        self._signals: Counter[str] = Counter()
        self._model_seen = False

    def add(self, signal: Signal) -> None:
        """Count one signal."""
        self._signals[signal.label] += 1
        self._model_seen = self._model_seen or signal.of_model

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the step's event; `model_seen` is None if it is unknown."""
        model_seen = self._model_seen if self._model_seen or self._all_signals else None
        return {"signals": dict(self._signals), "model_seen": model_seen}

    def clear(self) -> None:
        """Start another step."""
        self._signals.clear()
        self._model_seen = False


def uneven_steps(run: Run) -> Iterator[str]:
    """Return hints on recorded steps without work, without a model's work, or with an unusual number of iterations."""
    steps = {number: attributes for trace in run.traces for number, attributes in _step_attributes(trace)}
    idle = sorted(set(steps) - {step for trace in run.traces for step in _steps_with_operators(trace)})
    without_model = sorted(number for number, attributes in steps.items() if attributes["model_seen"] is False)
    if idle and any(manifest.settings.get("level") != 1 for manifest in run.manifests.values()):
        yield f"There is no operator in recorded {_list_steps(idle)}. {_ADVICE}"
    elif without_model:
        yield f"No work of a model or an optimizer was seen in recorded {_list_steps(without_model)}. {_ADVICE}"
    yield from _compare_signals(steps)


def _step_attributes(trace: Trace) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield number and attributes of each finished step with `StepContents`."""
    events = trace.events.filter(pc.equal(trace.events["kind"], Kind.STEP.value)).select(["step", "attributes"])
    for row in events.to_pylist():
        attributes = json.loads(row["attributes"] or "{}")
        if "signals" in attributes:
            yield row["step"], attributes


def has_events(trace: Trace, layer: str) -> bool:
    """Return whether any event of a layer was recorded."""
    return bool(pc.any(_is_of(trace, layer)).as_py())


def _steps_with_operators(trace: Trace) -> list[int]:
    operators = trace.events.filter(_is_of(trace, Layer.FRAMEWORK.value))
    steps: list[int] = operators["step"].unique().drop_null().to_pylist()
    return steps


def _is_of(trace: Trace, layer: str) -> pa.ChunkedArray:
    return pc.equal(trace.events["layer"], layer)


def _list_steps(numbers: list[int]) -> str:
    some = ", ".join(map(str, numbers[:_MAX_STEPS])) + (", ..." if len(numbers) > _MAX_STEPS else "")
    return f"step {some}" if len(numbers) == 1 else f"steps {some}"


def _compare_signals(steps: dict[int, dict[str, Any]]) -> Iterator[str]:
    """Return a hint for each signal whose number differs between steps.

    The first step is left out: hooks are removed in it, and no request for another batch precedes its first one.
    """
    steps = {number: attributes for number, attributes in steps.items() if number}
    names = {name for attributes in steps.values() for name in attributes["signals"]}
    for name in sorted(names):
        counts = {number: int(attributes["signals"].get(name, 0)) for number, attributes in steps.items()}
        usual = Counter(counts.values()).most_common(1)[0][0]
        others = [f"step {number} {count}" for number, count in sorted(counts.items()) if count != usual]
        others[_MAX_STEPS:] = ["..."] if len(others) > _MAX_STEPS else []
        if others:
            yield f"Recorded steps have different numbers of {name} signals: {', '.join(others)}, the others {usual}."
