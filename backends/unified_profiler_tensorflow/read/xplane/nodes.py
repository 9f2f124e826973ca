"""Finds the nodes that ran by the event names of XPlane files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from unified_profiler.spi.xplane.planes import read_event_names
from unified_profiler_tensorflow.canonical.path import name_in_graph
from unified_profiler_tensorflow.read.xplane.describer import NODE


def executed_nodes(files: Iterable[Path]) -> frozenset[str]:
    """Return the names of the nodes in their own graphs; none of a damaged file, which the normalizer reports."""
    names = (name for file in files for name in read_event_names(file))
    return frozenset(name_in_graph(node[1]) for name in names if (node := NODE.fullmatch(name)))
