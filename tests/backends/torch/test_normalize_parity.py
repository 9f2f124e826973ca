"""One capture of a real model, counted by torch and by us."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from unified_profiler.model.assembly import assemble
from unified_profiler.spi import NativeCapture
from unified_profiler_torch.read.normalizer import KinetoNormalizer

NOT_IN_TORCH = {"Iteration Start: PyTorch Profiler", "Record Window End"}


@dataclass
class Totals:
    calls: int = 0
    total_ns: int = 0
    self_ns: int = 0
    memory: int = 0
    self_memory: int = 0
    flops: int = 0


@pytest.fixture(scope="module")
def both(
    train: Callable[[], None], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Totals]]:
    """torch's key_averages and our totals by name, from the same capture."""
    profile = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_flops=True
    )
    profile.prepare_trace()
    profile.start_trace()
    train()
    torch.baddbmm(torch.ones(2, 3, 5), torch.ones(2, 3, 4), torch.ones(2, 4, 5))
    profile.stop_trace()
    path = tmp_path_factory.mktemp("parity") / "trace.json"
    profile.profiler.kineto_results.save(str(path))
    torchs = {average.key: average for average in profile.key_averages() if average.key != "[memory]"}
    return torchs, _totals(path)


def _totals(path: Path) -> dict[str, Totals]:
    table = assemble([KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(path,)))])
    events = table.to_pylist()
    parents = [event["parent_id"] for event in events]
    children = _children(events, parents)
    dropped = _drop_only_namesakes(events, parents, children)
    totals: dict[str, Totals] = defaultdict(Totals)
    for event in events:
        if event["kind"] == "memory":
            _add_memory(totals, events, parents, event)
        elif event["id"] not in dropped:
            mine = totals[event["name"]]
            mine.calls += 1
            mine.total_ns += event["duration_ns"]
            mine.self_ns += event["duration_ns"] - sum(events[c]["duration_ns"] for c in children[event["id"]])
            mine.flops += event["flops"] or 0
    return totals


def _children(events: list[dict[str, Any]], parents: list[int | None]) -> dict[int, list[int]]:
    children = defaultdict(list)
    for event, parent in zip(events, parents, strict=True):
        if parent is not None and event["kind"] != "memory":
            children[parent].append(event["id"])
    return children


def _drop_only_namesakes(
    events: list[dict[str, Any]], parents: list[int | None], children: dict[int, list[int]]
) -> set[int]:
    """Drop each event that is the only child of an event of the same name, as torch's EventList does."""
    dropped = set()
    for event in sorted(events, key=lambda e: -e["depth"]):
        parent = parents[event["id"]]
        if parent is None or children[parent] != [event["id"]] or events[parent]["name"] != event["name"]:
            continue
        dropped.add(event["id"])
        children[parent] = children[event["id"]]
        for index, above in enumerate(parents):
            if above == event["id"]:
                parents[index] = parent
    return dropped


def _add_memory(
    totals: dict[str, Totals], events: list[dict[str, Any]], parents: list[int | None], event: dict[str, Any]
) -> None:
    above = parents[event["id"]]
    if above is not None:
        totals[events[above]["name"]].self_memory += event["bytes"]
    while above is not None:
        totals[events[above]["name"]].memory += event["bytes"]
        above = parents[above]


def test_the_same_operators_are_seen(both: Any) -> None:
    torchs, ours = both
    assert ours.keys() - NOT_IN_TORCH == torchs.keys()
    assert len(torchs) > 100


def test_calls_are_equal(both: Any) -> None:
    torchs, ours = both
    assert {name: ours[name].calls for name in torchs} == {name: mine.count for name, mine in torchs.items()}


def test_total_times_agree_to_a_microsecond_per_call(both: Any) -> None:
    torchs, ours = both
    apart = {name: abs(ours[name].total_ns / 1000 - mine.cpu_time_total) / mine.count for name, mine in torchs.items()}
    assert max(apart.values()) < 1


def test_self_times_agree_to_a_microsecond_per_call(both: Any) -> None:
    torchs, ours = both
    apart = {
        name: abs(ours[name].self_ns / 1000 - mine.self_cpu_time_total) / mine.count for name, mine in torchs.items()
    }
    assert max(apart.values()) < 1


def test_memory_is_equal(both: Any) -> None:
    torchs, ours = both
    assert {name: ours[name].memory for name in torchs} == {name: m.cpu_memory_usage for name, m in torchs.items()}
    assert any(mine.memory for mine in ours.values())


def test_self_memory_is_equal(both: Any) -> None:
    torchs, ours = both
    expected = {name: mine.self_cpu_memory_usage for name, mine in torchs.items()}
    assert {name: ours[name].self_memory for name in torchs} == expected


def test_flops_are_equal_where_torch_counts_them(both: Any) -> None:
    torchs, ours = both
    counted = {name: mine.flops for name, mine in torchs.items() if mine.flops}
    assert {name: ours[name].flops for name in counted} == counted
    assert {"aten::conv2d", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mul", "aten::add"} <= counted.keys()
    assert {name for name, mine in ours.items() if mine.flops} - counted.keys() == {"aten::convolution_backward"}
