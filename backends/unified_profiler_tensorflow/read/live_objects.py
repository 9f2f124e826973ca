"""Writes and reads the note beside the native files: the layers, losses, optimizers and nodes that were alive.

Nodes are named after layers, losses and optimizers, whose names a user may choose; only the live objects reveal the
class behind a name. The note makes it available to the normalizer, which does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from unified_profiler.model.foreign import read_bytes, reading
from unified_profiler_tensorflow.read.run_metadata.files import RUN_METADATA

NAME = "live_objects.json"
XPLANE = "xplane"
"""The folder beside the note to which TensorFlow writes `plugins/profile/<run>/<host>.xplane.pb`."""

LAYER, LOSS, OPTIMIZER, METRIC, INPUT, TAPE = "layer", "loss", "optimizer", "metric", "input", "tape"
UNSURE = "unsure"
"""Marks nodes that belong to a gradient in one graph and to something else in another."""

Details = dict[str, Any]
"""Attributes of a node that determine how much it computes: strides, padding, the equation of an Einsum..."""


class LiveObjects(msgspec.Struct, frozen=True, kw_only=True):
    """The live objects of a process, by the names that they give to nodes."""

    names: dict[str, list[tuple[str, str]]] = {}
    """Kind and class of all objects of a name: `{"head": [("layer", "Dense")]}`. The class is the nearest base class
    that the framework itself defines: `Layer` for a user's own layer."""
    roots: dict[str, str] = {}
    """The kind of nodes without a scope: of metrics, optimizers, gradients, or functions of an input pipeline."""
    gradients: dict[str, str] = {}
    """For nodes in gradients whose names do not reveal it: the type of the node that they are the gradient of."""
    nodes: dict[str, list[dict[str, bool | str | list[int]]]] = {}
    """Details of nodes, several where graphs have different nodes of one name."""
    flops: bool = True
    """Whether floating-point operations are to be counted."""


def write_note(note: LiveObjects, folder: Path) -> Path:
    """Write the note and return its path."""
    path = folder / NAME
    path.write_bytes(msgspec.json.encode(note))
    return path


def read_note(files: Iterable[Path]) -> LiveObjects:
    """Read the note that belongs to native files; an empty one if there is none.

    Raises:
        TraceFormatError: The note is damaged.
    """
    path = next((path for file in files if (path := _note_path(file)) and path.is_file()), None)
    if path is None:
        return LiveObjects()
    with reading(path, expected="a note that unified_profiler wrote; copy it again, or delete it"):
        return msgspec.json.decode(read_bytes(path), type=LiveObjects)


def _note_path(file: Path) -> Path | None:
    """Return the note of a file in the recorder's own layout only; elsewhere it could belong to another recording."""
    parents = file.absolute().parents
    if parents[0].name == RUN_METADATA:
        return parents[1] / NAME
    if len(parents) > 4 and parents[3].name == XPLANE:
        return parents[4] / NAME
    return None
