"""Computes the columns `op`, `origin`, `direction` and `module` of kernels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from unified_profiler.model.columns import text_column
from unified_profiler.model.nesting import Ints
from unified_profiler.spi.canonical import BACKWARD, FORWARD, OPTIMIZER, UPDATE
from unified_profiler_mindspore.canonical.assignment import Lookup
from unified_profiler_mindspore.canonical.execution_order import LaunchSpans, directions
from unified_profiler_mindspore.canonical.gradients import Gradients
from unified_profiler_mindspore.canonical.graph_locations import Kernel
from unified_profiler_mindspore.canonical.kernel_names import Node

Case: TypeAlias = tuple[int, str | None, str | None]
"""Index of a kernel, its direction, and the class of the optimizer that was running."""
Origin: TypeAlias = tuple[str | None, str | None]
"""Canonical operator and module."""


def canonical_columns(
    launches: Ints, kernels: Sequence[Kernel], table: Lookup, *, spans: LaunchSpans | None
) -> dict[str, Any]:
    """Return the columns, with one row per launch.

    Args:
        launches: Index of the kernel of each launch.
        kernels: The distinct kernels.
        table: Canonical operators by name.
        spans: The span of each launch, see `directions`.
    """
    indices = launches.tolist()
    launch_directions = directions(indices, [kernel.node for kernel in kernels], table, spans=spans)
    optimizers = [span.optimizer if span else None for span in spans] if spans else [None] * len(indices)
    cases = list(zip(indices, launch_directions, optimizers, strict=True))
    resolver = _OriginResolver(kernels, table, set(cases))
    origins = {case: resolver.resolve(*case) for case in set(cases)}
    return {
        "op": text_column(launches, [table.op(kernel.node) for kernel in kernels]),
        "origin": _encode([origins[case][0] for case in cases]),
        "direction": _encode(launch_directions),
        "module": _encode([origins[case][1] for case in cases]),
    }


class _OriginResolver:
    """Determines the canonical operator and the module that caused a kernel."""

    def __init__(self, kernels: Sequence[Kernel], table: Lookup, cases: Collection[Case]) -> None:
        self._kernels, self._table = kernels, table
        self._gradients = Gradients(kernels, table)
        self._has_transposed_convolution = any(
            direction == FORWARD and kernels[index].node.type in table.forward for index, direction, _ in cases
        )
        updates = [kernels[index].node for index, direction, _ in cases if direction == UPDATE]
        optimizers = set(map(table.optimizer_of, updates)) - {None}
        self._only_optimizer = optimizers.pop() if len(optimizers) == 1 else None

    def resolve(self, index: int, direction: str | None, optimizer: str | None) -> Origin:
        kernel = self._kernels[index]
        node = kernel.node
        if direction == UPDATE:
            return self._optimizer(node, optimizer), node.module
        if direction == BACKWARD and node.gradient_of:
            origin, module = self._gradients.layer(kernel)
            return origin or self._table.origin(node, direction), module
        if direction == BACKWARD and self._has_transposed_convolution and node.type.endswith("BackpropFilter"):
            return None, None  # of a convolution or of a transposed one
        return self._table.origin(node, direction), node.module

    def _optimizer(self, node: Node, running: str | None) -> str:
        if running is not None:
            return self._table.optimizer.get(running, OPTIMIZER)
        return self._table.optimizer_of(node) or self._only_optimizer or OPTIMIZER


def _encode(values: Sequence[str | None]) -> pa.DictionaryArray:
    return pa.array(values, pa.string()).dictionary_encode()
