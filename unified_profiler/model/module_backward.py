"""The spans of modules in the backward pass, without a hook in the network.

Hooks of a module's backward pass change the graph that autograd builds, and break networks that work in place. The
operators of the backward pass tell as much: as long as those of one module follow each other, the module is at work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from unified_profiler.model.module_time import BACKWARD, backward_nodes, models, module_calls
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
        events: Nested events that carry their modules.
    """
    called = events.filter(pa.array(module_calls(events))).select(["module", "name"])
    classes = dict(zip(called.column("module").to_pylist(), called.column("name").to_pylist(), strict=True))
    nodes = events.filter(pa.array(backward_nodes(events))).select(_COLUMNS)
    if not classes or not len(nodes):
        return empty_table()
    nodes = nodes.sort_by([("pid", "ascending"), ("tid", "ascending"), ("start_ns", "ascending")])
    spans = sorted(_spans(nodes.to_pylist(), models(events)), key=lambda span: span.level)
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


def _spans(nodes: Iterable[Mapping[str, Any]], model_of: Mapping[str, str]) -> Iterator[_Span]:
    """Yield a span for each run of operators in one module, and for the modules around it."""
    open_spans: list[_Span] = []
    lane = None
    for node in nodes:
        if (node["pid"], node["tid"]) != lane:
            yield from open_spans
            open_spans, lane = [], (node["pid"], node["tid"])
        chain = _around(node["module"], model_of)
        same = _common(chain, open_spans)
        yield from open_spans[same:]
        del open_spans[same:]
        end = node["start_ns"] + node["duration_ns"]
        for span in open_spans:
            span.end_ns = end
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
