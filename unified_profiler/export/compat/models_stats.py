"""The statistics of each recorded step: what the application did in it, and what each node of each model took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

import msgspec
import numpy as np

from unified_profiler.analysis.ancestry import parent_rows, within
from unified_profiler.analysis.columns import coded, ints
from unified_profiler.export.compat.models_steps import ModelStep, RecordedStep, Said, TraceColumns
from unified_profiler.model.columns import Index
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind

AppStats: TypeAlias = dict[str, dict[str, dict[str, Any]]]
"""Step, activity, `duration` and `meta`."""
Nodes: TypeAlias = dict[str, dict[str, Any]]
"""Node, `duration`, `output` and `total_bytes`."""
OpStats: TypeAlias = dict[str, dict[str, dict[str, dict[str, Nodes]]]]
"""Model, step, host, device, nodes."""

_NO_HOST = "localhost"
_NO_DEVICE = "unknown"


def app_stats(steps: Iterable[RecordedStep], *, ranks: bool) -> AppStats:
    """Return the regions of each step; those of one name add up, and the last text given with them stays.

    Args:
        steps: The recorded steps.
        ranks: Whether the names of activities tell the rank.
    """
    stats: AppStats = {}
    for step in steps:
        activities = stats.setdefault(step.label, {})
        for name, duration_us, meta in _regions(step):
            label = f"{name}_rank_{step.columns.rank}" if ranks else name
            activity = activities.setdefault(label, {"duration": 0.0, "meta": None})
            activity["duration"] = round(activity["duration"] + duration_us, 3)
            activity["meta"] = meta if bytes(meta) not in {b"", b"null"} else activity["meta"]
    return stats


def _regions(step: RecordedStep) -> Iterable[tuple[str, float, msgspec.Raw]]:
    columns = step.columns
    for row in step.rows[columns.regions[step.rows]].tolist():
        yield columns.name.values[columns.name.codes[row]], columns.duration_us[row], columns.said(row).meta


def op_stats(parts: Iterable[ModelStep]) -> OpStats:
    """Return the nodes of each model in each step."""
    stats: OpStats = {}
    prepared: dict[TraceColumns, _NodeColumns] = {}
    for part in parts:
        columns = part.step.columns
        rows = part.rows[columns.nodes[part.rows]]
        if len(rows):
            if columns not in prepared:
                prepared[columns] = _NodeColumns(columns)
            stats.setdefault(part.model, {})[part.step.label] = prepared[columns].placed(rows)
    return stats


class _NodeColumns:
    """What is said of the nodes of a trace, by row."""

    def __init__(self, columns: TraceColumns) -> None:
        events = columns.events
        self._said = columns.said
        self._host = _texts(events, "host", columns.host or _NO_HOST)
        self._device = _devices(events)
        self._name = _texts(events, "name", "")
        self._module = _texts(events, "module", "")
        self._duration_us = columns.duration_us
        self._bytes = _bytes(columns)
        shapes, types = coded(events, "output_shapes"), coded(events, "output_types")
        self._shapes, self._types = (_decoded(column.values) for column in (shapes, types))
        self._outputs = list(zip(shapes.codes.tolist(), types.codes.tolist(), strict=True))
        self._described: dict[Any, dict[str, Any]] = {}

    def placed(self, rows: Ints) -> dict[str, dict[str, Nodes]]:
        """Return nodes by host and device; those of one name are numbered from the second on."""
        hosts: dict[str, dict[str, Nodes]] = defaultdict(lambda: defaultdict(dict))
        seen: Counter[tuple[str, str, str]] = Counter()
        for row in rows.tolist():
            said = self._said(row)
            host, device, node = self._host[row], self._device[row], self._node(row, said)
            nodes, label = hosts[host][device], node
            while label in nodes:
                seen[host, device, node] += 1
                label = f"{node}#{seen[host, device, node] + 1}"
            nodes[label] = {
                "duration": self._duration_us[row],
                "output": self._output(row, said),
                "total_bytes": self._bytes[row],
            }
        return {host: dict(devices) for host, devices in hosts.items()}

    def _node(self, row: int, said: Said) -> str:
        if isinstance(said.node, str) and said.node:
            return said.node
        return f"{self._module[row]}/{self._name[row]}" if self._module[row] else self._name[row]

    def _output(self, row: int, said: Said) -> dict[str, Any]:
        """Return shape and type of each output; what is the same for many is one object."""
        shapes, types = self._outputs[row]
        slots = tuple(map(str, said.output_slots)) if isinstance(said.output_slots, list) else ()
        key = shapes, types, slots
        if key not in self._described:
            self._described[key] = _outputs(self._shapes[shapes], self._types[types], slots)
        return self._described[key]


def _outputs(shapes: Sequence[Any], types: Sequence[Any], slots: Sequence[str]) -> dict[str, Any]:
    pairs = list(zip_longest(shapes, types))
    numbers = slots if len(slots) == len(pairs) else [str(number) for number in range(len(pairs))]
    return {slot: {"shape": shape, "type": kind} for slot, (shape, kind) in zip(numbers, pairs, strict=True)}


def _decoded(texts: Sequence[str]) -> list[list[Any]]:
    """Return lists that are written as JSON; what is none is empty, as is the last, for no text."""
    return [*map(_list, texts), []]


def _list(text: str) -> list[Any]:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _texts(events: EventTable, name: str, missing: str) -> list[str]:
    column = coded(events, name)
    values = [*column.values, missing]
    return [values[code] for code in column.codes.tolist()]


def _devices(events: EventTable) -> list[str]:
    """Return where each event happened; streams have places of their own, as in TensorFlow's statistics."""
    labels = Index()
    pairs = zip(_texts(events, "device", _NO_DEVICE), ints(events, "stream").tolist(), strict=True)
    codes = labels.codes(pairs)
    names = [device if stream < 0 else f"{device}/stream:{stream}" for device, stream in labels]
    return [names[code] for code in codes.tolist()]


def _bytes(columns: TraceColumns) -> list[int | None]:
    """Return the memory of each event: its own, else what was allocated within it; None where it was not recorded."""
    events = columns.events
    given = events.column("bytes").is_valid().to_numpy()
    memory = coded(events, "kind").where(Kind.MEMORY.value.__eq__)
    framework = coded(events, "framework").codes
    recorded = np.isin(framework, framework[given & (memory | columns.nodes)])
    size = ints(events, "bytes", null=0)
    found = np.where(given, size, within(np.where(memory, np.maximum(size, 0), 0), parent_rows(events)))
    return [amount if known else None for amount, known in zip(found.tolist(), recorded.tolist(), strict=True)]
