"""Converts events to nodes as TensorFlow's statistics describe them: host, device, name, outputs and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from unified_profiler.analysis.ancestry import parent_rows, within
from unified_profiler.analysis.columns import Flags, coded, ints, numbered
from unified_profiler.export.compat.models_steps import EventAttributes, TraceColumns
from unified_profiler.model.columns import Index
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import Kind

if TYPE_CHECKING:
    from typing_extensions import Self

_NO_HOST = "localhost"
_NO_DEVICE = "unknown"


@dataclass(frozen=True)
class NodeIndexes:
    """The distinct texts of the nodes of all traces, each with its number."""

    hosts: Index = field(default_factory=Index)
    devices: Index = field(default_factory=Index)
    names: Index = field(default_factory=Index)
    outputs: Index = field(default_factory=Index)
    """JSON objects: output -> `shape` and `type`."""


@dataclass(frozen=True)
class NodeColumns:
    """The nodes of several steps, one row each. Texts are numbers of `NodeIndexes`."""

    step: Ints
    host: Ints
    device: Ints
    node: Ints
    output: Ints
    duration_ns: Ints
    bytes: Ints
    has_bytes: Flags

    @classmethod
    def of(cls, columns: TraceColumns, rows: Ints, step: Ints, texts: NodeIndexes) -> Self:
        """Return the nodes in some rows of a trace, and add their texts.

        Args:
            columns: The trace.
            rows: The rows of the nodes.
            step: Index of the step of each.
            texts: The texts of all nodes.
        """
        memory, has_memory = _bytes(columns)
        return cls(
            step=step,
            host=_hosts(columns, rows, texts.hosts),
            device=_devices(columns, rows, texts.devices),
            node=_names(columns, rows, texts.names),
            output=_outputs(columns, rows, texts.outputs),
            duration_ns=columns.duration_ns[rows],
            bytes=memory[rows],
            has_bytes=has_memory[rows],
        )

    @classmethod
    def joined(cls, tables: Sequence[NodeColumns]) -> Self:
        """Return the nodes of several traces."""
        if not tables:
            return cls(*(np.zeros(0, np.int64) for _ in fields(cls)))  # type: ignore[arg-type]
        return cls(*(np.concatenate([getattr(table, name.name) for table in tables]) for name in fields(cls)))

    def take(self, order: Ints) -> Self:
        """Return the nodes in another order."""
        return type(self)(*(getattr(self, name.name)[order] for name in fields(self)))


def _hosts(columns: TraceColumns, rows: Ints, hosts: Index) -> Ints:
    column = coded(columns.events, "host")
    texts = [*column.values, columns.host or _NO_HOST]
    return _numbers([column.codes[rows]], hosts, lambda code: texts[code])


def _devices(columns: TraceColumns, rows: Ints, devices: Index) -> Ints:
    """Number the devices of events, with the stream if they have one, as in TensorFlow's statistics."""
    column, streams = coded(columns.events, "device"), ints(columns.events, "stream")[rows]
    texts = [*column.values, _NO_DEVICE]

    def device(code: int, stream: int) -> str:
        return texts[code] if stream < 0 else f"{texts[code]}/stream:{stream}"

    return _numbers([column.codes[rows], streams], devices, device)


def _names(columns: TraceColumns, rows: Ints, names: Index) -> Ints:
    """Number the names of nodes: the path in the graph, else that of the module and the native name."""
    given = Index()
    paths = _per_attributes(columns, rows, lambda each: given[each.node if isinstance(each.node, str) else ""])
    name, module = columns.name, coded(columns.events, "module")
    known, modules = list(given), [*module.values, ""]

    def text(path: int, module_code: int, name_code: int) -> str:
        native = name.values[name_code]
        return known[path] or (f"{modules[module_code]}/{native}" if modules[module_code] else native)

    return _numbers([paths, module.codes[rows], name.codes[rows]], names, text)


def _outputs(columns: TraceColumns, rows: Ints, outputs: Index) -> Ints:
    """Number the JSON of the outputs of nodes."""
    given = Index()
    slots = _per_attributes(columns, rows, lambda each: given[_slots(each)])
    shapes, types = coded(columns.events, "output_shapes"), coded(columns.events, "output_types")
    known = list(given)
    lists = [[*map(_decode_list, column.values), []] for column in (shapes, types)]  # [] for null

    def text(slot: int, shape: int, kind: int) -> str:
        return msgspec.json.encode(_described(lists[0][shape], lists[1][kind], known[slot])).decode()

    return _numbers([slots, shapes.codes[rows], types.codes[rows]], outputs, text)


def _numbers(codes: Sequence[Any], index: Index, text: Any) -> Ints:
    """Return the number of each row's text, which a function makes once for each combination of codes."""
    group = numbered(codes)
    first = np.empty(group.max(initial=-1) + 1, np.int64)
    first[group] = np.arange(len(group))
    texts = [text(*combination) for combination in zip(*(each[first].tolist() for each in codes), strict=True)]
    return index.codes(texts)[group]


def _per_attributes(columns: TraceColumns, rows: Ints, number: Any) -> Ints:
    """Return a number for each row that depends on its attributes only."""
    numbers = np.fromiter(map(number, columns.distinct_attributes), np.int64)
    per_row: Ints = numbers[columns.attribute_codes[rows]]
    return per_row


def _slots(attributes: EventAttributes) -> tuple[str, ...]:
    return tuple(map(str, attributes.output_slots)) if isinstance(attributes.output_slots, list) else ()


def _described(shapes: Sequence[Any], types: Sequence[Any], slots: Sequence[str]) -> dict[str, Any]:
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


def _bytes(columns: TraceColumns) -> tuple[Ints, Flags]:
    """Return the memory of each event, its own or else the allocations inside it, and whether it was recorded."""
    events = columns.events
    given = events.column("bytes").is_valid().to_numpy()
    memory = coded(events, "kind").where(Kind.MEMORY.value.__eq__)
    framework = coded(events, "framework").codes
    recorded = np.isin(framework, framework[given & (memory | columns.nodes)])
    size = ints(events, "bytes", null=0)
    inside = within(np.where(memory, np.maximum(size, 0), 0), parent_rows(events)) if memory.any() else 0
    return np.where(given, size, inside), recorded
