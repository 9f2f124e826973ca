"""Reads the attributes of live graph nodes from which FLOPs are computed: strides, transpositions, equations.

Graphs are only read. If reading exceeds its time limit, the result is empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from unified_profiler_tensorflow.read.live_objects import Details
from unified_profiler_tensorflow.record.live_graphs import within_budget

_PRODUCT = re.compile(r"(Depthwise)?Conv[23][Dd]\w*|(Batch)?MatMul(V\d)?|Einsum")
_FUSIBLE = re.compile(
    r"BiasAdd|Add(V2)?|Sub|Mul|Squeeze|FusedBatchNorm(V\d)?|(Leaky)?Relu6?|Elu|Sigmoid|Tanh|Softplus|Erfc?|Pow|Neg|Cast"
)
"""Node types that TensorFlow fuses with a preceding product, alone or as parts of an activation."""
_MAX_FUSED = 10
"""Maximum number of nodes after a product that may be fused with it; the fused node is named after the last."""
_GRADIENT = "gradient"


def collect_node_details(graphs: Iterable[Any]) -> dict[str, list[Details]]:
    """Return the attributes of matrix products and convolutions, also under the names of nodes that may be fused."""
    nodes: dict[str, list[Details]] = {}
    with suppress(TimeoutError):
        for op in within_budget(op for graph in graphs for op in graph.get_operations()):
            if _PRODUCT.fullmatch(op.type):
                _add(nodes, op)
        return nodes
    return {}


def _add(nodes: dict[str, list[Details]], op: Any) -> None:
    details = _details(op)
    for name in (op.name, *_fusible_successors(op)):
        if details not in nodes.setdefault(name, []):
            nodes[name].append(details)


def _details(op: Any) -> Details:
    """Return all attributes that change the amount of work, and the shape that the graph contains."""
    converters: dict[str, Callable[[Any], Any]] = {
        **dict.fromkeys(("strides", "explicit_paddings", "dilations"), list),
        **dict.fromkeys(("transpose_a", "transpose_b", "adj_x", "adj_y"), bool),
        **dict.fromkeys(("padding", "data_format", "equation"), _text),
    }
    names = {attr.name for attr in op.op_def.attr}
    details = {name: convert(op.get_attr(name)) for name, convert in converters.items() if name in names}
    name, shape = _shape(op)
    return details | ({name: shape.as_list()} if shape.is_fully_defined() else {})


def _shape(op: Any) -> tuple[str, Any]:
    """Return the filter of a convolution (an input, or the output of the filter's gradient), or a product's matrix."""
    if "Conv" in op.type:
        return "filter", (op.outputs[0] if "BackpropFilter" in op.type else op.inputs[1]).shape
    return "result", op.outputs[0].shape[-2:]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _fusible_successors(product: Any) -> Iterator[str]:
    """Yield the names of the nodes that may be fused with a product; gradients are never fused."""
    seen, frontier = {product.name}, [product] if not product.name.startswith(_GRADIENT) else []
    for _ in range(_MAX_FUSED):
        users = {user.name: user for op in frontier for tensor in op.outputs[:1] for user in tensor.consumers()}
        frontier = [user for name, user in users.items() if name not in seen and _is_fusible(user)]
        seen |= {user.name for user in frontier}
        yield from (user.name for user in frontier)


def _is_fusible(op: Any) -> bool:
    return _FUSIBLE.fullmatch(op.type) is not None and not op.name.startswith(_GRADIENT)
