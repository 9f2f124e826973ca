"""The graphs that ran, in files beside the native ones: what is computed from what, of which shape, in which Cell.

The names of kernels say less: parts of operators that were taken apart have lost their Cell and their direction.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from unified_profiler_mindspore.read.files import GRAPH
from unified_profiler_mindspore.record import native

logger = logging.getLogger("unified_profiler")


def write_graphs(graphs: Iterable[str], folder: Path) -> list[Path]:
    """Write each graph to a file of its own; one that MindSpore has forgotten, or cannot write, is left out."""
    written: list[Path] = []
    for graph in graphs:
        text = native.graph_text(graph)
        if not text:
            continue
        path = folder / f"{GRAPH}_{len(written)}.pb"
        try:
            path.write_bytes(text)
        except OSError as error:  # the kernels themselves are written: they are worth having without
            logger.warning("A graph of MindSpore could not be written; directions and layers may be missing: %s", error)
            path.unlink(missing_ok=True)
            break
        written.append(path)
    return written
