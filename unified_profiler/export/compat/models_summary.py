"""Writes summary.md of the models layout, with the content of its summary.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unified_profiler.export.compat.models_stats import AppStats, OpStats
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
    for model in dict.fromkeys(model for model, _ in files):
        steps = op_stats.get(model, {})
        blocks += [f"## {escaped(model)}", *_steps(steps, {s: file for (m, s), file in files.items() if m == model})]
        blocks += _nodes(steps)
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


def _steps(steps: Mapping[str, Any], files: Mapping[str, str]) -> Iterator[str]:
    rows = [
        (step, f"{_count(steps.get(step, {})):,}", f"timeline/{file}", f"step_stats/{file}")
        for step, file in files.items()
    ]
    yield table(("step", "nodes", "timeline", "statistics"), rows[:MOST_ROWS], right_aligned=(True, True))
    yield from _more(len(rows) - MOST_ROWS, "steps")


def _count(hosts: Mapping[str, Any]) -> int:
    return sum(len(nodes) for devices in hosts.values() for nodes in devices.values())


@dataclass
class _Node:
    """A node over all steps in which it ran."""

    durations: list[float] = field(default_factory=list)
    output: Mapping[str, Any] = field(default_factory=dict)
    total_bytes: int | None = None

    def add(self, stats: Mapping[str, Any]) -> None:
        """Add the statistics of one step."""
        self.durations.append(stats["duration"])
        self.output = self.output or stats["output"]
        if stats["total_bytes"] is not None:
            self.total_bytes = max(self.total_bytes or 0, stats["total_bytes"])


def _nodes(steps: Mapping[str, Any]) -> Iterator[str]:
    merged: dict[tuple[str, str, str], _Node] = {}
    for hosts in steps.values():
        for host, devices in hosts.items():
            for device, nodes in devices.items():
                for node, stats in nodes.items():
                    merged.setdefault((node, host, device), _Node()).add(stats)
    if not merged:
        return
    longest = sorted(merged.items(), key=lambda item: -sum(item[1].durations))[:MOST_NODES]
    yield "The nodes that took longest over all steps:"
    yield table(
        ("node", "host", "device", "steps", "mean", "longest", "memory", "output"),
        [(*key, *_cells(node)) for key, node in longest],
        right_aligned=(False, False, False, True, True, True, True),
    )
    yield from _more(len(merged) - MOST_NODES, "nodes")


def _cells(node: _Node) -> tuple[str, ...]:
    durations = node.durations
    return (
        f"{len(durations):,}",
        format_time(sum(durations) / len(durations) * 1000),
        format_time(max(durations) * 1000),
        "" if node.total_bytes is None else format_bytes(node.total_bytes),
        ", ".join(map(_output, node.output.values())),
    )


def _output(output: Mapping[str, Any]) -> str:
    """Format an output as in TensorFlow's labels: `float32[8,10]`."""
    shape = output["shape"]
    sizes = ",".join(map(str, shape)) if isinstance(shape, Sequence) and not isinstance(shape, str) else "?"
    return f"{output['type'] or ''}[{sizes}]"


def _more(count: int, noun: str) -> Iterator[str]:
    if count > 0:
        yield f"{count:,} more {noun} are in summary.json."
