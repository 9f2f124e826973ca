"""Splits a run into the parts that the models layout has files for: the events of one model in one step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from unified_profiler.analysis.ancestry import nearest, parent_rows
from unified_profiler.analysis.columns import Coded, Flags, coded, ints
from unified_profiler.model.columns import Index
from unified_profiler.model.nesting import Ints
from unified_profiler.model.run import Run
from unified_profiler.model.schema import Kind, Layer
from unified_profiler.model.trace import Trace

_NODES = frozenset({Kind.OP.value, Kind.KERNEL.value, Kind.COPY.value, Kind.COLLECTIVE.value})
_NO_MODEL = "model"
"""Model of events without a framework."""


class EventAttributes(msgspec.Struct, frozen=True):
    """The attributes of an event that this layout uses; their values are not trusted."""

    node: Any = None
    graph: Any = None
    output_slots: Any = None
    meta: msgspec.Raw = msgspec.Raw()
    """Undecoded JSON."""


class TraceColumns:
    """The columns of one trace that determine steps, models and nodes."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.events = trace.events.unify_dictionaries().combine_chunks()
        self.rank, self.host = trace.info.rank, trace.info.host
        kind = coded(self.events, "kind")
        self.nodes: Flags = kind.where(_NODES.__contains__)
        """Operators and device work."""
        own = coded(self.events, "layer").where(Layer.APPLICATION.value.__eq__)
        self.regions: Flags = kind.where(Kind.REGION.value.__eq__) & own
        """Regions of the application."""
        attributes = coded(self.events, "attributes")
        self.attribute_codes = attributes.codes
        """Index of the attributes of each event among the distinct ones; -1, the last, if it has none."""
        self.distinct_attributes: list[EventAttributes] = [*map(_decode, attributes.values), EventAttributes()]

    @cached_property
    def name(self) -> Coded:
        """The names."""
        return coded(self.events, "name")

    @cached_property
    def duration_ns(self) -> Ints:
        """Duration of each event."""
        return ints(self.events, "duration_ns")

    @cached_property
    def start_ns(self) -> Ints:
        """Start of each event."""
        return ints(self.events, "start_ns")

    @cached_property
    def step(self) -> Ints:
        """Number of the step of each event, -1 outside of steps."""
        return ints(self.events, "step")

    def attributes(self, row: int) -> EventAttributes:
        """Return the attributes of an event."""
        return self.distinct_attributes[int(self.attribute_codes[row])]

    @cached_property
    def has_steps(self) -> bool:
        """Whether any event is in a step."""
        return bool((self.step >= 0).any())

    @cached_property
    def steps(self) -> list[tuple[int, Ints]]:
        """Number and rows, by time, of each step; a trace without steps is step 0."""
        number = self.step if self.has_steps else np.zeros_like(self.step)
        order = np.lexsort((-self.duration_ns, self.start_ns, number))
        order = order[number[order] >= 0]
        numbers, first = np.unique(number[order], return_index=True)
        return list(zip(numbers.tolist(), np.split(order, first[1:]), strict=True))

    def by_model(self, rows: Ints) -> Iterator[tuple[str, Ints]]:
        """Yield the rows of each model, in the given order.

        Events of no model, such as steps, regions, counters and threads of the framework, belong to all models.
        """
        names, certain, likely = self._models
        present = np.unique(certain[rows])
        present = present[present >= 0]
        model = np.where((certain[rows] < 0) & np.isin(likely[rows], present), likely[rows], certain[rows])
        for code in present.tolist():
            yield names[code], rows[(model == code) | (model < 0)]
        if not len(present):
            frameworks = list(self.trace.info.frameworks)
            yield frameworks[0] if len(frameworks) == 1 else _NO_MODEL, rows

    @cached_property
    def _models(self) -> tuple[list[str], Ints, Ints]:
        """All models, and of each event the certain model and the likely one; -1 for none.

        The model of all events inside a named graph is the graph; otherwise it is the framework.
        """
        names = Index()
        graphs = (each.graph for each in self.distinct_attributes)
        graph = np.array([names[g] if g and isinstance(g, str) else -1 for g in graphs], np.int64)
        graph = graph[self.attribute_codes]
        if (graph >= 0).any():
            parent = parent_rows(self.events)
            around = nearest(parent, parent=parent, wanted=graph >= 0)
            graph = np.where((graph < 0) & (around >= 0), graph[around], graph)
        framework = coded(self.events, "framework")
        codes = np.array([*(names[text or _NO_MODEL] for text in framework.values), -1], np.int64)[framework.codes]
        certain = np.where(self.nodes & (graph < 0), np.where(codes < 0, names[_NO_MODEL], codes), graph)
        return list(names), certain, codes


@dataclass(frozen=True)
class RecordedStep:
    """A step of one rank."""

    columns: TraceColumns
    number: int
    label: str
    """The number, with a suffix if the rank has that step again: `3_2`."""
    rows: Ints


@dataclass(frozen=True)
class ModelStep:
    """The events of one model in one step."""

    step: RecordedStep
    graph: str
    """Name of the graph, or else of the framework."""
    model: str
    """The same, with the rank if there are several."""
    rows: Ints


def recorded_steps(run: Run) -> list[RecordedStep]:
    """Return the recorded steps of all ranks."""
    seen: Counter[tuple[int, int]] = Counter()
    steps = []
    for columns in (TraceColumns(trace) for trace in run.traces if len(trace.events)):
        for number, rows in columns.steps:
            seen[columns.rank, number] += 1
            again = seen[columns.rank, number]
            steps.append(RecordedStep(columns, number, f"{number}_{again}" if again > 1 else f"{number}", rows))
    return steps


def model_steps(steps: Iterable[RecordedStep], *, with_rank: bool) -> list[ModelStep]:
    """Return the models of each step.

    Args:
        steps: The recorded steps.
        with_rank: Whether names of models include the rank.
    """
    return [
        ModelStep(step, graph, f"{graph}_rank_{step.columns.rank}" if with_rank else graph, rows)
        for step in steps
        for graph, rows in step.columns.by_model(step.rows)
    ]


def _decode(text: str) -> EventAttributes:
    try:
        return msgspec.json.decode(text, type=EventAttributes)
    except (msgspec.DecodeError, RecursionError):
        return _decode_python_json(text)


def _decode_python_json(text: str) -> EventAttributes:
    """Decode JSON that only Python accepts: NaN becomes text, a lone surrogate a question mark."""
    try:
        valid = json.dumps(json.loads(text, parse_constant=str), ensure_ascii=False).encode(errors="replace")
        return msgspec.json.decode(valid, type=EventAttributes)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return EventAttributes()
