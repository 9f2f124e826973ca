"""Describes the work that a label of step statistics stands for, once for all runs of a capture that contain it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from unified_profiler_tensorflow.read.node_lookup import NodeLookup
from unified_profiler_tensorflow.read.run_metadata.builder import COPY, EventType, device_event_type, operator_type
from unified_profiler_tensorflow.read.run_metadata.names import Device, read_kernel_label, read_label

_KERNEL_DETAILS = re.compile(r"^(?P<name>.+?) (?P<launch>(?:regs|grid|shm):.*)$")
_COPY_TYPE = re.compile(r"<(?P<type>\w+)>")


class Works(NamedTuple):
    """What the nodes with each label have in common, as columns."""

    layer: Sequence[str]
    kind: Sequence[str]
    name: Sequence[str]
    node: Sequence[str]
    op_type: Sequence[str]
    attributes: Sequence[str]
    """Members of a JSON object, each followed by a comma."""
    op: Sequence[str | None]
    origin: Sequence[str | None]
    direction: Sequence[str | None]
    module: Sequence[str | None]


_NO_WORKS = Works(*[()] * len(Works._fields))

Work = tuple[str, str, str, str, str, str, "str | None", "str | None", "str | None", "str | None"]
"""A row of `Works`: a plain tuple, since there is one for each label."""


class _Attributes(msgspec.Struct, omit_defaults=True):
    """Attributes of work; empty ones are left out."""

    node: str = ""
    op_type: str = ""
    graph: str = ""
    inputs: list[str] | None = None
    label: str = ""
    details: str = ""


@dataclass(frozen=True)
class WorkReader:
    """Reads the labels of a capture. Most runs of a session repeat those of the run before."""

    lookup: NodeLookup = field(default_factory=NodeLookup)
    _known: dict[tuple[str | None, str], dict[tuple[bytes, bytes], Work]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """By the part of a device and the graph that ran, and by name and timeline label."""

    def read(self, labels: Sequence[tuple[bytes, bytes]], device: Device, graph: str | None) -> Works:
        """Return the work of each pair of a name and a timeline label.

        Args:
            labels: The pairs.
            device: The device that the nodes ran on, or one of its parts.
            graph: The name of the graph that ran.
        """
        # `repr`: the index of the runs, which is not checked, may contain a graph that has no hash
        known = self._known.setdefault((device.part, repr(graph)), {})
        new = [pair for pair in labels if pair not in known] if known else labels
        part = device.part
        added = self._operators(new, graph or "") if part is None else self._parts(new, part, graph or "")
        known.update(zip(new, added, strict=True))
        works = [known[label] for label in labels]
        return Works(*zip(*works, strict=True)) if works else _NO_WORKS

    def _operators(self, labels: Iterable[tuple[bytes, bytes]], graph: str) -> Iterator[Work]:
        classify, event_types = self.lookup.classify, _EventTypes()
        for name, text in labels:
            node, op_type, inputs, details = read_label(name.decode(), text.decode())
            layer, kind = event_types[op_type]
            attributes = _Attributes(node, "", graph, inputs.split(", ") if inputs else None, details)
            yield layer, kind, op_type, node, op_type, _members(attributes), *classify(node, op_type)

    def _parts(self, labels: Iterable[tuple[bytes, bytes]], part: str, graph: str) -> Iterator[Work]:
        for name, text in labels:
            node, op_type, _, details = read_kernel_label(name.decode(), text.decode())
            event_type, title, details = _device_work(part, name.decode(), details)
            members = _members(_Attributes(node, op_type, graph, details=details))
            columns = self.lookup.classify(node, op_type)
            yield event_type.layer, event_type.kind, title, node, op_type, members, *columns


class _EventTypes(dict[str, tuple[str, str]]):
    """Layer and kind of operators by their type."""

    def __missing__(self, op_type: str) -> tuple[str, str]:
        """Look a type up when it first occurs."""
        event_type = operator_type(op_type)
        self[op_type] = event_type.layer, event_type.kind
        return self[op_type]


def _members(attributes: _Attributes) -> str:
    text = msgspec.json.encode(attributes).decode()
    return f"{text[1:-1]}," if text != "{}" else ""


def _device_work(part: str, node_name: str, details: str) -> tuple[EventType, str, str]:
    """Return type and name of work on a part of an accelerator, and the other details of its label."""
    event_type = device_event_type(part, details)
    if event_type is COPY:
        kind = _COPY_TYPE.search(part)
        return event_type, kind["type"] if kind else (details or node_name).split()[0], details
    kernel = _KERNEL_DETAILS.match(details)
    return (event_type, kernel["name"], kernel["launch"]) if kernel else (event_type, node_name or details, details)
