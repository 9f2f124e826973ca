"""How the nodes of live graphs compute, which tells how much: strides, transpositions, equations.

Graphs are only read. If there is more to read than fits into the time that this may take, nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from unified_profiler_tensorflow.read.live_objects import Details
from unified_profiler_tensorflow.record.live_graphs import within_budget

_PRODUCT = re.compile(r"(Depthwise)?Conv[23][Dd]\w*|(Batch)?MatMul(V\d)?|Einsum")
_FUSED = re.compile(
    r"BiasAdd|Add(V2)?|Sub|Mul|Squeeze|FusedBatchNorm(V\d)?|(Leaky)?Relu6?|Elu|Sigmoid|Tanh|Softplus|Erfc?|Pow|Neg|Cast"
)
"""What TensorFlow fuses with a product before it, alone or as the pieces of an activation."""
_FUSED_AFTER = 10
"""So many nodes after a product may be fused with it; the fused one is called after the last."""
_GRADIENT = "gradient"


def details_of(graphs: Iterable[Any]) -> dict[str, list[Details]]:
    """Return how products of matrices and convolutions compute, by the names of their nodes and of those after."""
    found: dict[str, list[Details]] = {}
    with suppress(TimeoutError):
        for op in within_budget(op for graph in graphs for op in graph.get_operations()):
            if _PRODUCT.fullmatch(op.type):
                _add(found, op)
        return found
    return {}


def _add(found: dict[str, list[Details]], op: Any) -> None:
    details = _details(op)
    for name in (op.name, *_following(op)):
        known = found.setdefault(name, [])
        if details not in known:
            known.append(details)


def _details(op: Any) -> Details:
    """Return all attributes that change the amount of work, and the shapes that the graph tells."""
    read: dict[str, Callable[[Any], Any]] = {
        "strides": list,
        "padding": _text,
        "explicit_paddings": list,
        "dilations": list,
        "data_format": _text,
        "transpose_a": bool,
        "transpose_b": bool,
        "adj_x": bool,
        "adj_y": bool,
        "equation": _text,
    }
    known = {attr.name for attr in op.op_def.attr}
    details = {name: convert(op.get_attr(name)) for name, convert in read.items() if name in known}
    name, shape = _shape(op)
    return details | ({name: shape.as_list()} if shape.is_fully_defined() else {})


def _shape(op: Any) -> tuple[str, Any]:
    """Return the filter of a convolution, an input of most and the result of its gradient; or a product's matrix."""
    if "Conv" in op.type:
        return "filter", (op.outputs[0] if "BackpropFilter" in op.type else op.inputs[1]).shape
    return "result", op.outputs[0].shape[-2:]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _following(op: Any) -> Iterator[str]:
    """Yield the names of the nodes that may be fused with a product; gradients are not."""
    seen, level = {op.name}, [op] if not op.name.startswith(_GRADIENT) else []
    for _ in range(_FUSED_AFTER):
        users = {user.name: user for made in level for tensor in made.outputs[:1] for user in tensor.consumers()}
        level = [user for name, user in users.items() if name not in seen and _may_be_fused(user)]
        seen |= {user.name for user in level}
        yield from (user.name for user in level)


def _may_be_fused(op: Any) -> bool:
    return _FUSED.fullmatch(op.type) is not None and not op.name.startswith(_GRADIENT)
