"""Writes summary.md of the models layout, with the content of its summary.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from unified_profiler.analysis.columns import numbered
from unified_profiler.export.compat.models_stats import AppStats, OpStats
from unified_profiler.model.nesting import Ints
from unified_profiler.presentation.markdown import escaped, table
from unified_profiler.presentation.tables import format_bytes, format_time

MOST_NODES = 50
"""Largest number of nodes per model."""
MOST_ROWS = 500
"""Largest number of rows of the other tables."""

_UNITS = (
    "In `summary.json` every `duration` is in microseconds, every `total_bytes` in bytes. "
    "The duration of a node includes the nodes inside it, so durations do not add up to that of the step."
)


def summary_text(
    name: str, app_stats: AppStats, op_stats: OpStats, *, files: Mapping[tuple[str, str], str], outside_count: int
) -> str:
    """Return the document.

    Args:
        name: Name of the run.
        app_stats: Regions of the application.
        op_stats: Nodes of the models.
        files: File names by model and step.
        outside_count: Number of events outside of steps.
    """
    blocks = [f"# {escaped(name)}", _UNITS]
    if outside_count:
        blocks.append(f"Events outside of steps, which are not in these files: {outside_count:,}.")
    blocks += ["## Application", *_application(app_stats)]
    counts = _counts(op_stats)
    for model in dict.fromkeys(model for model, _ in files):
        blocks += [f"## {escaped(model)}", *_steps(model, files, counts), *_nodes(model, op_stats)]
    return "\n\n".join(blocks) + "\n"


def _application(stats: AppStats) -> Iterator[str]:
    rows = [
        (step, name, format_time(activity["duration"] * 1000), _meta(activity["meta"]))
        for step, activities in stats.items()
        for name, activity in activities.items()
    ]
    if not rows:
        yield "No region of the program was recorded. Mark some with `with prof.region(...)`."
        return
    yield table(("step", "activity", "duration", "meta"), rows[:MOST_ROWS], right_aligned=(True, False, True))
    yield from _more(len(rows) - MOST_ROWS, "activities")


def _meta(meta: msgspec.Raw | None) -> str:
    """Return a string without its quotes, anything else as JSON."""
    if meta is None:
        return ""
    text = bytes(meta)
    return msgspec.json.decode(text, type=str) if text.startswith(b'"') else text.decode()


def _counts(stats: OpStats) -> dict[tuple[str, str], int]:
    """Return the number of nodes of each model in each step."""
    counts = np.bincount(stats.step, minlength=len(stats.steps)).tolist()
    return {(stats.models[model], label): count for (model, label), count in zip(stats.steps, counts, strict=True)}


def _steps(model: str, files: Mapping[tuple[str, str], str], counts: Mapping[tuple[str, str], int]) -> Iterator[str]:
    rows = [
        (step, f"{counts.get((model, step), 0):,}", f"timeline/{file}", f"step_stats/{file}")
        for (each, step), file in files.items()
        if each == model
    ]
    yield table(("step", "nodes", "timeline", "statistics"), rows[:MOST_ROWS], right_aligned=(True, True))
    yield from _more(len(rows) - MOST_ROWS, "steps")


def _nodes(model: str, stats: OpStats) -> Iterator[str]:
    model_of_step = np.array([each for each, _ in stats.steps], np.int64)
    if model not in stats.models:
        return
    code = stats.models.index(model)
    rows = np.arange(*np.searchsorted(model_of_step[stats.step], [code, code + 1]).tolist())
    merged = numbered([stats.node[rows], stats.number[rows], stats.host[rows], stats.device[rows]])
    total_ns = np.bincount(merged, weights=stats.duration_ns[rows])
    first = np.empty(len(total_ns), np.int64)
    first[merged[::-1]] = np.arange(len(rows))[::-1]
    longest = np.lexsort((first, -total_ns))[:MOST_NODES]
    yield "The nodes that took longest over all steps:"
    yield table(
        ("node", "host", "device", "steps", "mean", "longest", "memory", "output"),
        [_cells(stats, rows[np.flatnonzero(merged == group)]) for group in longest.tolist()],
        right_aligned=(False, False, False, True, True, True, True),
    )
    yield from _more(len(total_ns) - MOST_NODES, "nodes")


def _cells(stats: OpStats, rows: Ints) -> tuple[str, ...]:
    """Return the cells of a node over all steps in which it ran."""
    first, durations = int(rows[0]), stats.duration_ns[rows]
    known = stats.bytes[rows[stats.has_bytes[rows]]]
    outputs = (msgspec.json.decode(stats.outputs[code], type=dict[str, Any]) for code in stats.output[rows].tolist())
    output = next(filter(None, outputs), dict[str, Any]())
    return (
        *(stats.label(first), stats.hosts[stats.host[first]], stats.devices[stats.device[first]]),
        f"{len(rows):,}",
        format_time(int(durations.sum()) / len(rows)),
        format_time(int(durations.max())),
        format_bytes(max(int(known.max()), 0)) if len(known) else "",
        ", ".join(map(_output, output.values())),
    )


def _output(output: Mapping[str, Any]) -> str:
    """Format an output as in TensorFlow's labels: `float32[8,10]`."""
    shape = output["shape"]
    sizes = ",".join(map(str, shape)) if isinstance(shape, Sequence) and not isinstance(shape, str) else "?"
    return f"{output['type'] or ''}[{sizes}]"


def _more(count: int, noun: str) -> Iterator[str]:
    if count > 0:
        yield f"{count:,} more {noun} are in summary.json."
