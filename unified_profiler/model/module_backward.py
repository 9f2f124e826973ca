"""Derives the spans of modules in the backward pass from the operators recorded in it.

Backward hooks of modules would change the graph that autograd builds, and break networks that operate in place. A
module's span lasts as long as consecutive operators of the backward pass belong to it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Any

import numpy as np
import pyarrow as pa

from unified_profiler.model.module_attribution import (
    BACKWARD,
    backward_nodes,
    models,
    module_calls,
    operators_outside,
    outermost_of,
)
from unified_profiler.model.nesting import Ints, int_column
from unified_profiler.model.schema import EventTable, Kind, Layer, empty_table, event_table

_COLUMNS = ["module", "framework", "pid", "tid", "thread", "start_ns", "duration_ns"]


@dataclass
class _ModuleSpan:
    path: str
    node: Mapping[str, Any]
    """Its first operator."""
    end_ns: int
    depth: int
    """Number of enclosing modules."""


def backward_spans(events: EventTable) -> EventTable:
    """Return the module calls of the backward pass as events that are not nested yet.

    Args:
        events: Nested events with modules and steps.
    """
    is_call = module_calls(events)
    nodes = np.flatnonzero(backward_nodes(events)) if is_call.any() else np.empty(0, np.int64)
    if not len(nodes):
        return empty_table()
    calls = events.select(["module", "name"]).filter(pa.array(is_call))
    class_of = dict(zip(calls.column("module").to_pylist(), calls.column("name").to_pylist(), strict=True))
    nodes, passes = _backward_passes(events, nodes)
    rows = events.select(_COLUMNS).take(pa.array(nodes)).append_column("pass", pa.array(passes))
    spans = sorted(_module_spans(rows.to_pylist(), models(events), class_of), key=lambda span: span.depth)
    return event_table(
        {
            "name": [class_of[span.path] for span in spans],
            "layer": Layer.API.value,
            "kind": Kind.MODULE.value,
            "direction": BACKWARD,
            "start_ns": [span.node["start_ns"] for span in spans],
            "duration_ns": [span.end_ns - span.node["start_ns"] for span in spans],
            "module": [span.path for span in spans],
            **{name: [span.node[name] for span in spans] for name in ("framework", "pid", "tid", "thread")},
        },
        rows=len(spans),
    )


def _backward_passes(events: EventTable, nodes: Ints) -> tuple[Ints, Ints]:
    """Return the nodes in execution order per thread, and the number of each node's backward pass.

    A pass begins with the last operator of the forward pass, which has the highest sequence number, and runs on a
    thread without other operators in between. It never continues in another step. Events within a node belong to the
    pass of that node.
    """
    columns = ("pid", "tid", "step", "start_ns", "sequence_id")
    pid, tid, step, start, sequence = (int_column(events, name) for name in columns)
    outermost = outermost_of(events, nodes)
    outer = nodes[outermost[nodes] == nodes]
    rows = np.concatenate([outer, np.flatnonzero(operators_outside(events, nodes))])
    is_node = np.repeat([True, False], [len(outer), len(rows) - len(outer)])
    order = np.lexsort((start[rows], tid[rows], pid[rows]))
    operators_before = np.cumsum(~is_node[order])[is_node[order]]
    outer = rows[order][is_node[order]]
    constant_in_pass = np.stack([pid[outer], tid[outer], step[outer], operators_before])
    begins = np.append(True, (np.diff(constant_in_pass) != 0).any(axis=0))
    number = np.full(len(events), -1, np.int64)
    number[outer] = _pass_numbers(begins.tolist(), sequence[outer].tolist())
    nodes = nodes[np.lexsort((start[nodes], tid[nodes], pid[nodes]))]
    return nodes, number[outermost[nodes]]


def _pass_numbers(begins: Sequence[bool], sequence: Sequence[int]) -> list[int]:
    """Number the passes, which begin where flagged and where the sequence number of the first node is reached again."""
    numbers, number, first = [], -1, 0
    for begin, value in zip(begins, sequence, strict=True):
        if begin or value >= first:
            number, first = number + 1, value
        numbers.append(number)
    return numbers


def _module_spans(
    nodes: Iterable[Mapping[str, Any]], model_of: Mapping[str, str], called: Container[str]
) -> Iterator[_ModuleSpan]:
    """Yield a span for each series of operators in one module, and for the modules around it."""
    open_spans: list[_ModuleSpan] = []
    backward_pass = None
    for node in nodes:
        if node["pass"] != backward_pass:
            yield from open_spans
            open_spans, backward_pass = [], node["pass"]
        chain = [path for path in _module_chain(node["module"], model_of) if path in called]
        pairs = zip(chain, open_spans, strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1].path, pairs))
        yield from open_spans[common:]
        del open_spans[common:]
        end = node["start_ns"] + node["duration_ns"]
        for span in open_spans:
            span.end_ns = max(span.end_ns, end)  # a node may run within the one before it
        open_spans += [_ModuleSpan(path, node, end, depth) for depth, path in enumerate(chain[common:], common)]
    yield from open_spans


def _module_chain(path: str, model_of: Mapping[str, str]) -> list[str]:
    """Return the modules that enclose a module, and the module itself, outermost first; none if no call is known."""
    model, prefixes = model_of.get(path), accumulate(path.split("."), lambda prefix, part: f"{prefix}.{part}")
    if model is None:
        return []
    return [model, *(prefix for prefix in prefixes if prefix != model and model_of.get(prefix) == model)]
