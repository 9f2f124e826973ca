"""What is seen in each recorded step besides its end, and which steps it shows to be no ordinary iterations."""

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

_CHOOSE = "Choose another signal with --step-signal, or call Profiler.step() in the script."
_MOST_NUMBERS = 5


class StepContents:
    """Counts the signals that were sent in the current step, whether they end steps or not."""

    def __init__(self, *, all_signals: bool = True) -> None:
        """Make it empty; if only one signal is listened to, that none was sent by a model shows nothing."""
        self._all_signals = all_signals
        self._signals: Counter[str] = Counter()
        self._model = False

    def add(self, signal: Signal) -> None:
        """Count one signal."""
        self._signals[signal.label] += 1
        self._model = self._model or signal.of_model

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the step's event; whether a model was seen is None where that is unknown."""
        return {"signals": dict(self._signals), "model_seen": self._model if self._model or self._all_signals else None}

    def clear(self) -> None:
        """Begin another step."""
        self._signals.clear()
        self._model = False


def uneven_steps(run: Run) -> Iterator[str]:
    """Name recorded steps that hold no work, no work of a model, or more or fewer iterations than the others."""
    steps = {number: attributes for trace in run.traces for number, attributes in _contents(trace)}
    idle = sorted(set(steps) - {step for trace in run.traces for step in _working(trace)})
    strange = sorted(number for number, attributes in steps.items() if attributes["model_seen"] is False)
    if idle:
        yield f"There is no operator in recorded {_listed(idle)}. {_CHOOSE}"
    elif strange:
        yield f"No work of a model or an optimizer was seen in recorded {_listed(strange)}. {_CHOOSE}"
    yield from _different(steps)


def _contents(trace: Trace) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return number and attributes of each finished step that a launcher has described."""
    events = trace.events.filter(pc.equal(trace.events["kind"], Kind.STEP.value)).select(["step", "attributes"])
    for row in events.to_pylist():
        attributes = json.loads(row["attributes"] or "{}")
        if "signals" in attributes:
            yield row["step"], attributes


def has_operators(trace: Trace) -> bool:
    """Return whether any operator was recorded."""
    return bool(pc.any(_are_operators(trace)).as_py())


def _working(trace: Trace) -> list[int]:
    """Return the steps with any operator."""
    steps: list[int] = trace.events.filter(_are_operators(trace))["step"].unique().drop_null().to_pylist()
    return steps


def _are_operators(trace: Trace) -> pa.ChunkedArray:
    return pc.equal(trace.events["layer"], Layer.FRAMEWORK.value)


def _listed(numbers: list[int]) -> str:
    some = ", ".join(map(str, numbers[:_MOST_NUMBERS])) + (", ..." if len(numbers) > _MOST_NUMBERS else "")
    return f"step {some}" if len(numbers) == 1 else f"steps {some}"


def _different(steps: dict[int, dict[str, Any]]) -> Iterator[str]:
    """Compare the number of times that each signal was sent in each step."""
    names = {name for attributes in steps.values() for name in attributes["signals"]}
    for name in sorted(names):
        counts = {number: int(attributes["signals"].get(name, 0)) for number, attributes in steps.items()}
        usual = Counter(counts.values()).most_common(1)[0][0]
        others = [f"step {number} {count}" for number, count in sorted(counts.items()) if count != usual]
        others[_MOST_NUMBERS:] = ["..."] if len(others) > _MOST_NUMBERS else []
        if others:
            yield f"Recorded steps hold different numbers of {name} signals: {', '.join(others)}, the others {usual}."
