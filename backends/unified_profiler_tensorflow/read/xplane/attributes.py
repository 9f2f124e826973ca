"""What TensorFlow says about an event, as the texts of columns."""

from __future__ import annotations

import re

import msgspec

from unified_profiler.spi.xplane.planes import Stats

_TENSOR = re.compile(r"([A-Za-z]\w*)\[([\d,]*)\]")


def take_shapes(said: Stats) -> tuple[str | None, str | None]:
    """Take `shape` out of what is said: `(float[32,3];int32[])` as JSON of shapes and of types; other forms stay."""
    given = said.get("shape")
    if not isinstance(given, str) or not (given.startswith("(") and given.endswith(")")):
        return None, None
    tensors = [_TENSOR.fullmatch(tensor) for tensor in given[1:-1].split(";")] if given != "()" else []
    if not all(tensors):
        return None, None
    del said["shape"]
    found = [(tensor[1], tensor[2]) for tensor in tensors if tensor]
    shapes = [[int(size) for size in sizes.split(",") if size] for _, sizes in found]
    return msgspec.json.encode(shapes).decode(), msgspec.json.encode([kind for kind, _ in found]).decode()
