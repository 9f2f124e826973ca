"""The spans of modules in the backward pass, without a hook in the network.

Hooks of a module's backward pass change the graph that autograd builds, and break networks that work in place. The
operators of the backward pass tell as much: as long as those of one module follow each other, the module is at work.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from unified_profiler.model.module_time import (
    BACKWARD,
    backward_nodes,
    models,
    module_calls,
    operators_outside,
    outermost_of,
)
from unified_profiler.model.nesting import Ints, whole_numbers
from unified_profiler.model.schema import EventTable, Kind, Layer, empty_table, event_table

_COLUMNS = ["module", "framework", "pid", "tid", "thread", "start_ns", "duration_ns"]


@dataclass
class _Span:
    path: str
    node: Mapping[str, Any]
    """The first operator of it."""
    end_ns: int
    level: int
    """How many modules it is in."""


def backward_spans(events: EventTable) -> EventTable:
    """Return the calls of modules in the backward pass as events that are not nested yet.

    Args:
        events: Nested events that carry their modules and steps.
    """
    called = events.filter(pa.array(module_calls(events))).select(["module", "name"])
    classes = dict(zip(called.column("module").to_pylist(), called.column("name").to_pylist(), strict=True))
    nodes = np.flatnonzero(backward_nodes(events)) if classes else np.empty(0, np.int64)
    if not len(nodes):
        return empty_table()
    nodes, passes = _backward_passes(events, nodes)
    rows = events.select(_COLUMNS).take(pa.array(nodes)).append_column("pass", pa.array(passes))
    spans = sorted(_spans(rows.to_pylist(), models(events), set(classes)), key=lambda span: span.level)
    return event_table(
        {
            "name": [classes[span.path] for span in spans],
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
    """Return the nodes in the order in which each thread ran them, and the number of the backward pass of each.

    A pass begins with the last operator of the forward pass, which has the highest sequence number, and runs on a
    thread without operators of any other kind in between. It never goes on in another step. What runs within a node
    belongs to the pass of that node.
    """
    columns = ("pid", "tid", "step", "start_ns", "sequence_id")
    pid, tid, step, start, sequence = (whole_numbers(events.column(name)) for name in columns)
    outermost = outermost_of(events, nodes)
    outer = nodes[outermost[nodes] == nodes]
    rows = np.concatenate([outer, np.flatnonzero(operators_outside(events, nodes))])
    is_node = np.repeat([True, False], [len(outer), len(rows) - len(outer)])
    order = np.lexsort((start[rows], tid[rows], pid[rows]))
    between = np.cumsum(~is_node[order])[is_node[order]]
    outer = rows[order][is_node[order]]
    same = np.stack([pid[outer], tid[outer], step[outer], between])
    begins = np.append(True, (np.diff(same) != 0).any(axis=0))
    number = np.full(len(events), -1, np.int64)
    number[outer] = _numbered(begins.tolist(), sequence[outer].tolist())
    nodes = nodes[np.lexsort((start[nodes], tid[nodes], pid[nodes]))]
    return nodes, number[outermost[nodes]]


def _numbered(begins: Sequence[bool], sequence: Sequence[int]) -> Ints:
    """Number the passes, which begin where flagged and where the sequence number of the first node is reached again."""
    numbers, number, first = np.empty(len(sequence), np.int64), -1, 0
    for row, (begin, value) in enumerate(zip(begins, sequence, strict=True)):
        if begin or value >= first:
            number, first = number + 1, value
        numbers[row] = number
    return numbers


def _spans(nodes: Iterable[Mapping[str, Any]], model_of: Mapping[str, str], called: Container[str]) -> Iterator[_Span]:
    """Yield a span for each run of operators in one module, and for the modules around it."""
    open_spans: list[_Span] = []
    backward_pass = None
    for node in nodes:
        if node["pass"] != backward_pass:
            yield from open_spans
            open_spans, backward_pass = [], node["pass"]
        chain = [path for path in _around(node["module"], model_of) if path in called]
        same = _common(chain, open_spans)
        yield from open_spans[same:]
        del open_spans[same:]
        end = node["start_ns"] + node["duration_ns"]
        for span in open_spans:
            span.end_ns = max(span.end_ns, end)  # a node may run within the one before it
        open_spans += [_Span(path, node, end, level) for level, path in enumerate(chain[same:], same)]
    yield from open_spans


def _around(path: str, model_of: Mapping[str, str]) -> list[str]:
    """Return the modules that a module is in, itself included, the outermost first."""
    parts, model = path.split("."), model_of[path]
    prefixes = (".".join(parts[: count + 1]) for count in range(len(parts)))
    return [model, *(prefix for prefix in prefixes if prefix != model and model_of.get(prefix) == model)]


def _common(chain: Sequence[str], spans: Sequence[_Span]) -> int:
    same = 0
    for path, span in zip(chain, spans, strict=False):
        if path != span.path:
            break
        same += 1
    return same
