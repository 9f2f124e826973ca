"""Computes the statistics of each recorded step: the application's regions, and the nodes of each model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from unified_profiler.analysis.columns import Flags, numbered, ranked
from unified_profiler.export.compat.models_nodes import NodeColumns, NodeIndexes
from unified_profiler.export.compat.models_steps import ModelStep, RecordedStep
from unified_profiler.model.columns import Index
from unified_profiler.model.nesting import Ints

AppStats: TypeAlias = dict[str, dict[str, dict[str, Any]]]
"""Step -> activity -> `duration` and `meta`."""

_LOOKS_NUMBERED = re.compile(r"#[0-9]+\Z")


def app_stats(steps: Iterable[RecordedStep], *, with_rank: bool) -> AppStats:
    """Return the regions of each step; regions of one name are summed, with the last metadata given.

    Args:
        steps: The recorded steps.
        with_rank: Whether names of activities include the rank.
    """
    stats: AppStats = {}
    for step in steps:
        activities = stats.setdefault(step.label, {})
        columns = step.columns
        for row in step.rows[columns.regions[step.rows]].tolist():
            name, meta = columns.name.values[columns.name.codes[row]], columns.attributes(row).meta
            label = f"{name}_rank_{columns.rank}" if with_rank else name
            activity = activities.setdefault(label, {"duration": 0.0, "meta": None})
            activity["duration"] = round(activity["duration"] + int(columns.duration_ns[row]) / 1000, 3)
            activity["meta"] = meta if bytes(meta) not in {b"", b"null"} else activity["meta"]
    return stats


@dataclass(frozen=True)
class OpStats:
    """The nodes of all models and steps, one row each, sorted by model, step, host, device and time.

    Models, hosts and devices are in the order of their first node.
    """

    models: list[str]
    """The models that have nodes."""
    steps: list[tuple[int, str]]
    """Model and label of each step of a model that has nodes."""
    hosts: list[str]
    devices: list[str]
    names: list[str]
    outputs: list[str]
    """JSON objects: output -> `shape` and `type`."""
    step: Ints
    """For each node the index of its step; its other texts by index too."""
    host: Ints
    device: Ints
    node: Ints
    number: Ints
    """How many nodes of the same name precede it on its device in the step."""
    output: Ints
    duration_ns: Ints
    bytes: Ints
    has_bytes: Flags

    def label(self, row: int) -> str:
        """Return the name of a node; further nodes of one name have a number."""
        name, number = self.names[self.node[row]], int(self.number[row])
        return f"{name}#{number + 1}" if number else name


def op_stats(parts: Iterable[ModelStep]) -> OpStats:
    """Return the nodes of each model in each step."""
    texts, steps, chosen = NodeIndexes(), list[tuple[str, str]](), list[NodeColumns]()
    for _, group in groupby(parts, key=lambda part: id(part.step.columns)):
        of_trace = [(part, part.rows[part.step.columns.nodes[part.rows]]) for part in group]
        with_nodes = [(part, rows) for part, rows in of_trace if len(rows)]
        if with_nodes:
            rows = np.concatenate([rows for _, rows in with_nodes])
            counts = np.array([len(rows) for _, rows in with_nodes])
            step = np.repeat(np.arange(len(steps), len(steps) + len(counts)), counts)
            chosen.append(NodeColumns.of(with_nodes[0][0].step.columns, rows, step, texts))
            steps += [(part.model, part.step.label) for part, _ in with_nodes]
    return _sorted(NodeColumns.joined(chosen), steps, texts)


def _sorted(nodes: NodeColumns, steps: Sequence[tuple[str, str]], texts: NodeIndexes) -> OpStats:
    models = Index()
    model_of_step = models.codes(model for model, _ in steps)
    host_group = numbered([nodes.step, nodes.host])
    location = numbered([nodes.step, nodes.host, nodes.device])
    order = np.lexsort(
        (_first(location)[location], _first(host_group)[host_group], nodes.step, model_of_step[nodes.step])
    )
    nodes, location = nodes.take(order), location[order]
    node, number = _node_numbers(location, nodes.node, texts)
    return OpStats(
        models=list(models),
        steps=[(models[model], label) for model, label in steps],
        hosts=list(texts.hosts),
        devices=list(texts.devices),
        names=list(texts.names),
        outputs=list(texts.outputs),
        **(vars(nodes) | {"node": node, "number": number}),
    )


def _first(group: Ints) -> Ints:
    """Return the first row of each group."""
    first = np.empty(group.max(initial=-1) + 1, np.int64)
    first[group[::-1]] = np.arange(len(group))[::-1]  # of several assignments the last one counts
    return first


def _node_numbers(location: Ints, node: Ints, texts: NodeIndexes) -> tuple[Ints, Ints]:
    """Return name and number of each node, which are unique on a device in a step."""
    if any(map(_LOOKS_NUMBERED.search, texts.names)):
        return _unique_labels(location, node, texts), np.zeros(len(node), np.int64)
    group = ranked(location * len(texts.names) + node)
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    number = np.empty(len(node), np.int64)
    number[order] = np.arange(len(node)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return node, number


def _unique_labels(location: Ints, node: Ints, texts: NodeIndexes) -> Ints:
    """Return names that contain the numbers, for the case that the name of some node looks like one with a number."""
    seen: Counter[tuple[int, str]] = Counter()
    taken: set[tuple[int, str]] = set()
    names, labels = list(texts.names), []
    for where, code in zip(location.tolist(), node.tolist(), strict=True):
        label = names[code]
        while (where, label) in taken:
            seen[where, names[code]] += 1
            label = f"{names[code]}#{seen[where, names[code]] + 1}"
        taken.add((where, label))
        labels.append(texts.names[label])
    return np.array(labels, np.int64)
