"""Writes the nodes of all steps as the JSON of `op_stats`: model -> step -> host -> device -> node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from unified_profiler.analysis.columns import numbered
from unified_profiler.export.compat.models_stats import OpStats
from unified_profiler.export.fragments import (
    constant,
    either,
    inner_quoted,
    lookup,
    quoted,
    shortest_microseconds,
    whole,
)
from unified_profiler.export.row_text import RowText, joined, row_blocks

_Path = tuple[str, str, str, str]


def op_stats_json(stats: OpStats) -> Iterator[Any]:
    """Yield the JSON object as blocks of text."""
    if not len(stats.step):
        yield b"{}"
        return
    node = joined([_openings(stats), _node(stats)])
    for rows in row_blocks(range(len(stats.step))):
        yield node.buffer(rows)
    yield b"}}}}}"


def _openings(stats: OpStats) -> RowText:
    """Write what precedes a node: a comma, or the keys that change with it."""
    group = numbered([stats.step, stats.host, stats.device])
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    paths = [_path(stats, row) for row in begins.tolist()]
    index = np.zeros(len(group), np.int64)
    index[begins] = np.arange(1, len(begins) + 1)
    before = [None, *paths[:-1]]
    return lookup([",", *(_opening(*pair) for pair in zip(before, paths, strict=True))], index)


def _path(stats: OpStats, row: int) -> _Path:
    model, label = stats.steps[stats.step[row]]
    return stats.models[model], label, stats.hosts[stats.host[row]], stats.devices[stats.device[row]]


def _opening(before: _Path | None, path: _Path) -> str:
    """Close the objects of the path before that the path is not in, and open those of the path."""
    if before is None:
        return "{" + "".join(f"{quoted(key)}:{{" for key in path)
    shared = next(level for level in range(len(path)) if before[level] != path[level])
    return "}" * (len(path) - shared) + "," + ":{".join(quoted(key) for key in path[shared:]) + ":{"


def _node(stats: OpStats) -> RowText:
    memory = either(stats.has_bytes.astype(np.bool_), whole(stats.bytes), constant("null"))
    return joined(
        [
            *(constant('"'), lookup([inner_quoted(name) for name in stats.names], stats.node)),
            either(stats.number > 0, joined([constant("#"), whole(stats.number + 1)]), constant("")),
            *(constant('":{"duration":'), shortest_microseconds(stats.duration_ns)),
            *(constant(',"output":'), lookup(stats.outputs, stats.output)),
            *(constant(',"total_bytes":'), memory, constant("}")),
        ]
    )
