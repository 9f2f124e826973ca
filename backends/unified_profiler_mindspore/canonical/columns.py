"""The columns `op`, `origin`, `direction` and `module` of kernels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from unified_profiler.model.columns import text
from unified_profiler.model.nesting import Ints
from unified_profiler.spi.canonical import BACKWARD, FORWARD, OPTIMIZER, UPDATE
from unified_profiler_mindspore.canonical.assignment import Lookup
from unified_profiler_mindspore.canonical.execution_order import directions
from unified_profiler_mindspore.canonical.gradients import Gradients
from unified_profiler_mindspore.canonical.graph_locations import Launched
from unified_profiler_mindspore.canonical.kernel_names import Node
from unified_profiler_mindspore.read.note import Span

Case: TypeAlias = tuple[int, str | None, str | None]
"""A kernel, its direction, and the class of the optimizer that was running."""
Origin: TypeAlias = tuple[str | None, str | None]


def canonical_columns(
    launched: Ints, kernels: Sequence[Launched], table: Lookup, *, told: Sequence[Span | None] | None
) -> dict[str, Any]:
    """Return the columns.

    Args:
        launched: The kernel of each launch, as a number.
        kernels: What is known of each.
        table: What names mean.
        told: What is known by time, see `directions`.
    """
    numbers = launched.tolist()
    found = directions(numbers, [one.node for one in kernels], table, told=told)
    optimizers = [span.optimizer if span else None for span in told] if told else [None] * len(numbers)
    cases = list(zip(numbers, found, optimizers, strict=True))
    origins = _Origins(kernels, table, set(cases))
    known = {case: origins.of(*case) for case in set(cases)}
    return {
        "op": text(launched, [table.op(one.node) for one in kernels]),
        "origin": _encoded([known[case][0] for case in cases]),
        "direction": _encoded(found),
        "module": _encoded([known[case][1] for case in cases]),
    }


class _Origins:
    """Finds what caused kernels."""

    def __init__(self, kernels: Sequence[Launched], table: Lookup, cases: Collection[Case]) -> None:
        self._kernels, self._table = kernels, table
        self._gradients = Gradients(kernels, table)
        self._transposed = any(
            way == FORWARD and kernels[number].node.type in table.forward for number, way, _ in cases
        )
        of_kernels = {table.optimizer_of(kernels[number].node) for number, way, _ in cases if way == UPDATE} - {None}
        self._only_optimizer = of_kernels.pop() if len(of_kernels) == 1 else None

    def of(self, number: int, direction: str | None, optimizer: str | None) -> Origin:
        """Return canonical operator and module of what caused a kernel, given the optimizer that was running."""
        one = self._kernels[number]
        if direction == UPDATE:
            return self._of_update(one.node, optimizer), one.node.module
        if direction == BACKWARD and one.node.gradient_of:
            origin, module = self._gradients.layer(one)
            return origin or self._table.origin(one.node, direction), module
        if direction == BACKWARD and self._transposed and one.node.type.endswith("BackpropFilter"):
            return None, None  # of a convolution or of a transposed one
        return self._table.origin(one.node, direction), one.node.module

    def _of_update(self, node: Node, optimizer: str | None) -> str:
        if optimizer is not None:
            return self._table.optimizer.get(optimizer, OPTIMIZER)
        return self._table.optimizer_of(node) or self._only_optimizer or OPTIMIZER


def _encoded(values: Sequence[str | None]) -> pa.DictionaryArray:
    return pa.array(values, pa.string()).dictionary_encode()
