"""Computes the statistics of each recorded step: the application's regions, and the nodes of each model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

import msgspec
import numpy as np

from unified_profiler.analysis.ancestry import parent_rows, within
from unified_profiler.analysis.columns import coded, ints
from unified_profiler.export.compat.models_steps import EventAttributes, ModelStep, RecordedStep, TraceColumns
from unified_profiler.model.columns import Index
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind

AppStats: TypeAlias = dict[str, dict[str, dict[str, Any]]]
"""Step -> activity -> `duration` and `meta`."""
Nodes: TypeAlias = dict[str, dict[str, Any]]
"""Node -> `duration`, `output` and `total_bytes`."""
OpStats: TypeAlias = dict[str, dict[str, dict[str, dict[str, Nodes]]]]
"""Model -> step -> host -> device -> nodes."""

_NO_HOST = "localhost"
_NO_DEVICE = "unknown"


def app_stats(steps: Iterable[RecordedStep], *, with_rank: bool) -> AppStats:
    """Return the regions of each step; regions of one name are summed, with the last metadata given.

    Args:
        steps: The recorded steps.
        with_rank: Whether names of activities include the rank.
    """
    stats: AppStats = {}
    for step in steps:
        activities = stats.setdefault(step.label, {})
        columns = step.columns
        for row in step.rows[columns.regions[step.rows]].tolist():
            name, meta = columns.name.values[columns.name.codes[row]], columns.attributes(row).meta
            label = f"{name}_rank_{columns.rank}" if with_rank else name
            activity = activities.setdefault(label, {"duration": 0.0, "meta": None})
            activity["duration"] = round(activity["duration"] + columns.duration_us[row], 3)
            activity["meta"] = meta if bytes(meta) not in {b"", b"null"} else activity["meta"]
    return stats


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
            stats.setdefault(part.model, {})[part.step.label] = prepared[columns].by_device(rows)
    return stats


class _NodeColumns:
    """The columns of nodes of a trace, by row."""

    def __init__(self, columns: TraceColumns) -> None:
        events = columns.events
        self._attributes = columns.attributes
        self._host = _texts(events, "host", columns.host or _NO_HOST)
        self._device = _devices(events)
        self._name = _texts(events, "name", "")
        self._module = _texts(events, "module", "")
        self._duration_us = columns.duration_us
        self._bytes = _bytes(columns)
        shapes, types = coded(events, "output_shapes"), coded(events, "output_types")
        self._shapes, self._types = ([*map(_decode_list, each.values), []] for each in (shapes, types))  # [] for null
        self._outputs = list(zip(shapes.codes.tolist(), types.codes.tolist(), strict=True))
        self._described: dict[Any, dict[str, Any]] = {}

    def by_device(self, rows: Ints) -> dict[str, dict[str, Nodes]]:
        """Return nodes by host and device; further nodes of one name get a number."""
        hosts: dict[str, dict[str, Nodes]] = defaultdict(lambda: defaultdict(dict))
        seen: Counter[tuple[str, str, str]] = Counter()
        for row in rows.tolist():
            attributes = self._attributes(row)
            host, device, node = self._host[row], self._device[row], self._node(row, attributes)
            nodes, label = hosts[host][device], node
            while label in nodes:
                seen[host, device, node] += 1
                label = f"{node}#{seen[host, device, node] + 1}"
            nodes[label] = {
                "duration": self._duration_us[row],
                "output": self._output(row, attributes),
                "total_bytes": self._bytes[row],
            }
        return {host: dict(devices) for host, devices in hosts.items()}

    def _node(self, row: int, attributes: EventAttributes) -> str:
        if isinstance(attributes.node, str) and attributes.node:
            return attributes.node
        return f"{self._module[row]}/{self._name[row]}" if self._module[row] else self._name[row]

    def _output(self, row: int, attributes: EventAttributes) -> dict[str, Any]:
        """Return shape and type of each output, as one shared object for equal outputs."""
        shapes, types = self._outputs[row]
        slots = tuple(map(str, attributes.output_slots)) if isinstance(attributes.output_slots, list) else ()
        key = shapes, types, slots
        if key not in self._described:
            self._described[key] = _outputs(self._shapes[shapes], self._types[types], slots)
        return self._described[key]


def _outputs(shapes: Sequence[Any], types: Sequence[Any], slots: Sequence[str]) -> dict[str, Any]:
    pairs = list(zip_longest(shapes, types))
    numbers = slots if len(slots) == len(pairs) else [str(number) for number in range(len(pairs))]
    return {slot: {"shape": shape, "type": kind} for slot, (shape, kind) in zip(numbers, pairs, strict=True)}


def _decode_list(text: str) -> list[Any]:
    """Decode a JSON list; other texts give an empty list."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _texts(events: EventTable, name: str, missing: str) -> list[str]:
    column = coded(events, name)
    values = [*column.values, missing]
    return [values[code] for code in column.codes.tolist()]


def _devices(events: EventTable) -> list[str]:
    """Return the device of each event, with its stream if it has one, as in TensorFlow's statistics."""
    labels = Index()
    pairs = zip(_texts(events, "device", _NO_DEVICE), ints(events, "stream").tolist(), strict=True)
    codes = labels.codes(pairs)
    names = [device if stream < 0 else f"{device}/stream:{stream}" for device, stream in labels]
    return [names[code] for code in codes.tolist()]


def _bytes(columns: TraceColumns) -> list[int | None]:
    """Return the memory of each event: its own, or else the allocations inside it; None if not recorded."""
    events = columns.events
    given = events.column("bytes").is_valid().to_numpy()
    memory = coded(events, "kind").where(Kind.MEMORY.value.__eq__)
    framework = coded(events, "framework").codes
    recorded = np.isin(framework, framework[given & (memory | columns.nodes)])
    size = ints(events, "bytes", null=0)
    amounts = np.where(given, size, within(np.where(memory, np.maximum(size, 0), 0), parent_rows(events)))
    return [amount if known else None for amount, known in zip(amounts.tolist(), recorded.tolist(), strict=True)]
