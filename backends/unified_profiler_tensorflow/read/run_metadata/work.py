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


class Work(NamedTuple):
    """What all nodes with the same label have in common."""

    layer: str
    kind: str
    name: str
    node: str
    op_type: str
    attributes: str
    """Members of a JSON object, each followed by a comma."""
    op: str | None
    origin: str | None
    direction: str | None
    module: str | None


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

    def read(self, labels: Sequence[tuple[bytes, bytes]], device: Device, graph: str | None) -> list[Work]:
        """Return the work of each pair of a name and a timeline label.

        Args:
            labels: The pairs.
            device: The device that the nodes ran on, or one of its parts.
            graph: The name of the graph that ran.
        """
        # `repr`: the index of the runs, which is not checked, may contain a graph that has no hash
        known = self._known.setdefault((device.part, repr(graph)), {})
        new = [pair for pair in labels if pair not in known] if known else labels
        works = self._operators(new, graph or "") if device.part is None else self._parts(new, device.part, graph or "")
        known.update(zip(new, works, strict=True))
        return list(map(known.__getitem__, labels))

    def _operators(self, labels: Iterable[tuple[bytes, bytes]], graph: str) -> Iterator[Work]:
        classify = self.lookup.classify
        for name, text in labels:
            node, op_type, inputs, details = read_label(name.decode(), text.decode())
            event_type = operator_type(op_type)
            attributes = _Attributes(node, "", graph, inputs.split(", ") if inputs else None, details)
            members = _members(attributes)
            yield Work(event_type.layer, event_type.kind, op_type, node, op_type, members, *classify(node, op_type))

    def _parts(self, labels: Iterable[tuple[bytes, bytes]], part: str, graph: str) -> Iterator[Work]:
        for name, text in labels:
            node, op_type, _, details = read_kernel_label(name.decode(), text.decode())
            event_type, title, details = _device_work(part, name.decode(), details)
            members = _members(_Attributes(node, op_type, graph, details=details))
            columns = self.lookup.classify(node, op_type)
            yield Work(event_type.layer, event_type.kind, title, node, op_type, members, *columns)


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
