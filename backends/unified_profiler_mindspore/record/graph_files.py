"""Writes the graphs that ran to files beside the native ones: operators with their inputs, shapes and Cells.

Kernel names contain less: parts of expanded operators have lost their Cell and their direction.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from unified_profiler_mindspore.read.files import GRAPH
from unified_profiler_mindspore.record import native

logger = logging.getLogger("unified_profiler")


def write_graphs(graphs: Iterable[str], folder: Path) -> list[Path]:
    """Write each graph to a file of its own, except those that MindSpore has released or cannot write."""
    written: list[Path] = []
    for graph in graphs:
        content = native.graph_proto(graph)
        if not content:
            continue
        path = folder / f"{GRAPH}_{len(written)}.pb"
        try:
            path.write_bytes(content)
        except OSError as error:  # the kernels themselves are written, and useful without graphs
            logger.warning("A graph of MindSpore could not be written; directions and layers may be missing: %s", error)
            path.unlink(missing_ok=True)
            break
        written.append(path)
    return written
