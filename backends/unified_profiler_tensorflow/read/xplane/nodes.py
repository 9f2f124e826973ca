"""Which nodes ran, by the names in an XPlane file: read without its events, which are most of it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from unified_profiler_tensorflow.canonical.path import name_in_graph
from unified_profiler_tensorflow.read.protobuf import DAMAGED, message_classes
from unified_profiler_tensorflow.read.xplane.describer import NODE

_SPACE = message_classes(
    "unified_profiler.tensorflow.nodes",
    {
        "XSpace": {"planes": (1, "repeated XPlane")},
        "XPlane": {"event_metadata": (4, "repeated Entry")},
        "Entry": {"value": (2, "XEventMetadata")},
        "XEventMetadata": {"name": (2, "bytes")},
    },
)["XSpace"]


def executed_nodes(files: Iterable[Path]) -> frozenset[str]:
    """Return the names that the nodes have in their own graphs; none for a damaged file, which the normalizer tells."""
    planes = []
    with suppress(*DAMAGED):
        planes = [plane for file in files for plane in _SPACE.FromString(file.read_bytes()).planes]
    names = (entry.value.name.decode("utf-8", "replace") for plane in planes for entry in plane.event_metadata)
    return frozenset(name_in_graph(node[1]) for name in names if (node := NODE.fullmatch(name)))
