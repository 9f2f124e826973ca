"""A run cut into what the models layout has a file for: the events of one model in one recorded step."""

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
"""The model of what no framework recorded."""


class Said(msgspec.Struct, frozen=True):
    """What the attributes of an event say that matters here; anything may be in them."""

    node: Any = None
    graph: Any = None
    output_slots: Any = None
    meta: msgspec.Raw = msgspec.Raw()
    """As it was written."""


class TraceColumns:
    """The columns of one trace that tell steps, models and nodes apart."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.events = trace.events.unify_dictionaries().combine_chunks()
        self.rank, self.host = trace.info.rank, trace.info.host
        kind = coded(self.events, "kind")
        self.nodes: Flags = kind.where(_NODES.__contains__)
        """Operators and the work of devices."""
        own = coded(self.events, "layer").where(Layer.APPLICATION.value.__eq__)
        self.regions: Flags = kind.where(Kind.REGION.value.__eq__) & own
        """The spans that the user named."""
        attributes = coded(self.events, "attributes")
        self._codes: list[int] = attributes.codes.tolist()
        self._said: list[Said] = [*map(_read, attributes.values), Said()]

    @cached_property
    def name(self) -> Coded:
        """The names."""
        return coded(self.events, "name")

    @cached_property
    def duration_us(self) -> list[float]:
        """How long each event took."""
        microseconds: list[float] = (ints(self.events, "duration_ns") / 1000).tolist()
        return microseconds

    def said(self, row: int) -> Said:
        """Return what the attributes of an event say."""
        return self._said[self._codes[row]]

    @cached_property
    def has_steps(self) -> bool:
        """Whether any event is in a step."""
        return bool((ints(self.events, "step") >= 0).any())

    @cached_property
    def steps(self) -> list[tuple[int, Ints]]:
        """The number of each step and its rows by time; what has no steps at all is one, number 0."""
        number = ints(self.events, "step")
        if not self.has_steps:
            number = np.zeros_like(number)
        start, duration = ints(self.events, "start_ns"), ints(self.events, "duration_ns")
        order = np.lexsort((-duration, start, number))
        order = order[number[order] >= 0]
        found, first = np.unique(number[order], return_index=True)
        return list(zip(found.tolist(), np.split(order, first[1:]), strict=True))

    def by_model(self, rows: Ints) -> Iterator[tuple[str, Ints]]:
        """Give the rows of each model among some, in the order given.

        What belongs to no model, such as steps, regions, counters and threads of the framework, is in all of them.
        """
        names, certain, likely = self._models
        present = np.unique(certain[rows])
        present = present[present >= 0]
        model = np.where((certain[rows] < 0) & np.isin(likely[rows], present), likely[rows], certain[rows])
        for code in present.tolist():
            yield names[code], rows[(model == code) | (model < 0)]
        if not len(present):
            yield self._only_framework, rows

    @property
    def _only_framework(self) -> str:
        names = list(self.trace.info.frameworks)
        return names[0] if len(names) == 1 else _NO_MODEL

    @cached_property
    def _models(self) -> tuple[list[str], Ints, Ints]:
        """All models, the one that each event is known to belong to, and the one to which it may; -1 for none.

        The name of a graph is the model of all within it; without one it is the framework.
        """
        names = Index()
        graphs = [names[said.graph] if _is_name(said.graph) else -1 for said in self._said]
        graph = np.array(graphs, np.int64)[self._codes]
        around = nearest(parent_rows(self.events), parent=parent_rows(self.events), wanted=graph >= 0)
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
    """The number; one that comes again in the same rank gets another number behind it: `3_2`."""
    rows: Ints


@dataclass(frozen=True)
class ModelStep:
    """The events of one model in one step."""

    step: RecordedStep
    graph: str
    """The name of the graph, else the framework."""
    model: str
    """The same, with the rank where there are several."""
    rows: Ints


def recorded_steps(run: Run) -> list[RecordedStep]:
    """Return the recorded steps of all ranks."""
    seen: Counter[tuple[int, int]] = Counter()
    found = []
    for columns in (TraceColumns(trace) for trace in run.traces if len(trace.events)):
        for number, rows in columns.steps:
            seen[columns.rank, number] += 1
            again = seen[columns.rank, number]
            found.append(RecordedStep(columns, number, f"{number}_{again}" if again > 1 else f"{number}", rows))
    return found


def model_steps(steps: Iterable[RecordedStep], *, ranks: bool) -> list[ModelStep]:
    """Return the models of each step.

    Args:
        steps: The recorded steps.
        ranks: Whether the names of models tell the rank.
    """
    return [
        ModelStep(step, graph, f"{graph}_rank_{step.columns.rank}" if ranks else graph, rows)
        for step in steps
        for graph, rows in step.columns.by_model(step.rows)
    ]


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _read(attributes: str) -> Said:
    try:
        return msgspec.json.decode(attributes, type=Said)
    except (msgspec.DecodeError, RecursionError):
        return _read_python(attributes)


def _read_python(attributes: str) -> Said:
    """Read what Python's JSON has and others do not: NaN becomes a text, half a character a question mark."""
    try:
        found = json.loads(attributes, parse_constant=str)
        return msgspec.json.decode(json.dumps(found, ensure_ascii=False).encode(errors="replace"), type=Said)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return Said()
