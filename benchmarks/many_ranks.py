"""Runs of many ranks: how long it takes to tell the slow ones, in what memory, and whether what is told is true.

The runs are made by calculation, a million events per rank, so that every slow rank and every clock is known. Each run
is answered in a process of its own, as the command line would. Absolute figures: no native profiler compares ranks.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure
from unified_profiler.testing.fleets import Fleet, HostClock, Straggler

SIZES = (8, 16, 32, 64)
STEPS, OUTER_OPS = 200, 1000
_ANSWER = """
import json, sys, time
import unified_profiler as up
start = time.perf_counter()
run = up.read(sys.argv[1])
table = up.rank_table(run)
spent = time.perf_counter() - start
slow = [[s.rank, s.since, s.cause, [name for name, _ in s.names]] for s in table.stragglers]
clocks = [[c.rank, c.ahead_ns, c.drift, c.at_ns] for c in table.clocks.ranks]
from benchmarks.normalizing import peak_memory
peak = peak_memory()
events = sum(len(trace) for trace in run.traces)
print(json.dumps({"seconds": spent, "peak": peak, "slow": slow, "clocks": clocks, "events": events}))
"""


def measure() -> list[Figure]:
    """Answer runs of 8 to 64 ranks."""
    answers = {ranks: _answered(_fleet(ranks)) for ranks in SIZES}
    last = answers[SIZES[-1]]
    cost = {ranks: answer["seconds"] / ranks for ranks, answer in answers.items()}
    note = ", ".join(f"{ranks} ranks {answer['seconds']:.1f} s" for ranks, answer in answers.items())
    size = f"{SIZES[-1]} ranks, {last['events']:,} events"
    wrong = sum(_wrong(answer, _fleet(ranks)) for ranks, answer in answers.items())
    off = max(_clock_error(answer, _fleet(ranks)) for ranks, answer in answers.items())
    return [
        Figure(name="slow ranks found, reading included", value=last["seconds"], unit="s", at_most=15, note=size),
        Figure(name="slow ranks found, memory", value=last["peak"] / 1e9, unit="GB", at_most=2, note=size),
        Figure(
            name="cost of a rank: 64 ranks / 8",
            value=cost[SIZES[-1]] / cost[SIZES[0]],
            unit="x",
            at_most=1.5,
            note=note,
        ),
        Figure(
            name="slow ranks found wrongly", value=wrong, unit="ranks", at_most=0, note="rank, step, cause and name"
        ),
        Figure(
            name="clocks of machines, largest error",
            value=off / 1e3,
            unit="us",
            at_most=50,
            note="offsets up to 3 s, drift up to 50 ppm",
        ),
    ]


def _fleet(ranks: int) -> Fleet:
    """Return a fleet with two slow ranks and a clock for each machine."""
    random = np.random.default_rng(ranks)
    clocks = {
        rank: HostClock(offset_ns=int(random.uniform(-3e9, 3e9)), drift=float(random.uniform(-5e-5, 5e-5)))
        for rank in range(1, ranks)
    }
    slow = (
        Straggler(rank=ranks // 2, since=100, extra_ns=2_000_000, operator="layer_3"),
        Straggler(rank=ranks - 2, since=60, extra_ns=1_500_000),
    )
    return Fleet(ranks=ranks, steps=STEPS, outer_ops=OUTER_OPS, stragglers=slow, clocks=clocks, seed=ranks)


def _answered(fleet: Fleet) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = fleet.write(Path(folder))
        done = subprocess.run([sys.executable, "-c", _ANSWER, path], check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _wrong(answer: dict[str, Any], fleet: Fleet) -> int:
    """Count the slow ranks that were not told, or told wrongly, and those that are none."""
    told = {(rank, since, cause, *names) for rank, since, cause, names in answer["slow"]}
    true = {
        (each.rank, each.since, "data" if each.operator is None else "compute", each.operator or "load_data")
        for each in fleet.stragglers
    }
    return len(told ^ true)


def _clock_error(answer: dict[str, Any], fleet: Fleet) -> float:
    """Return by how much the worst corrected clock is off at the beginning and at the end of the run, in ns."""
    length = 12e6 * fleet.steps
    worst = 0.0
    for rank, ahead, drift, at in answer["clocks"][1:]:
        clock = fleet.clocks[rank]
        for true in (0.0, length):
            shown = true + clock.offset_ns + clock.drift * true
            corrected = shown - (ahead + drift * (shown - (at - fleet.epoch_ns)))
            worst = max(worst, abs(corrected - true))
    return worst
