"""The note that the recorder leaves beside the native files: what was alive in the process when recording ended.

Nodes are called after layers, losses and optimizers, whose names a user may choose; only the live objects tell which
class is behind a name. With the note the normalizer knows it too, without TensorFlow.
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
"""Of nodes that are a gradient's in one graph and something else in another."""

Details = dict[str, Any]
"""Attributes of a node that tell how much it computes: strides, padding, the equation of an Einsum..."""


class LiveObjects(msgspec.Struct, frozen=True, kw_only=True):
    """What was alive."""

    names: dict[str, list[tuple[str, str]]] = {}
    """Sort and class of all objects of a name: `{"head": [("layer", "Dense")]}`. The class is the nearest one that the
    framework itself defines: of a user's own layer that is `Layer`."""
    roots: dict[str, str] = {}
    """Which nodes without a scope belong to metrics, optimizers, gradients, or the functions of an input pipeline."""
    gradients: dict[str, str] = {}
    """Of nodes in gradients whose names do not tell: the type of the node that they are the gradient of."""
    nodes: dict[str, list[dict[str, bool | str | list[int]]]] = {}
    """Details of nodes, several where graphs have different nodes of one name."""
    flops: bool = True
    """Whether floating-point operations are to be counted."""


def write_note(note: LiveObjects, folder: Path) -> Path:
    """Write the note and return where it is."""
    path = folder / NAME
    path.write_bytes(msgspec.json.encode(note))
    return path


def read_note(files: Iterable[Path]) -> LiveObjects:
    """Read the note that belongs to native files; one that says nothing where there is none.

    Raises:
        TraceFormatError: It is damaged.
    """
    path = next((place for file in files if (place := _place_of(file)) and place.is_file()), None)
    if path is None:
        return LiveObjects()
    with reading(path, expected="a note that unified_profiler left; copy it again, or delete it"):
        return msgspec.json.decode(read_bytes(path), type=LiveObjects)


def _place_of(file: Path) -> Path | None:
    """Return where the note of a file is: only where our recorder leaves both, lest it is another recording's."""
    above = file.absolute().parents
    if above[0].name == RUN_METADATA:
        return above[1] / NAME
    if len(above) > 4 and above[3].name == XPLANE:
        return above[4] / NAME
    return None
