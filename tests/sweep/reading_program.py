"""Reads every run of some output directories twice, as any other process would, and prints what is in them as JSON.

It runs as a script, so it imports the installed package and nothing of the sweep.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import unified_profiler as up


def main() -> None:
    """Print a JSON array with an object per directory, which has an entry per run."""
    json.dump(
        [{run.name: _contents(run) for run in sorted(Path(name).glob("*/"))} for name in sys.argv[1:]], sys.stdout
    )


def _contents(path: Path) -> dict[str, Any]:
    try:
        run = up.read(path)
    except Exception as error:  # noqa: BLE001  whatever it is, it is judged elsewhere
        return {"error": f"{type(error).__name__}: {error}"}
    manifest = run.manifests[0]
    return {
        "traces": [_summary(trace) for trace in run.traces],
        "steps": None if run.steps is None else len(run.steps),
        "failures": [f"{failure.source}: {failure.action}: {failure.error}" for failure in manifest.failures],
        "differences": list(_differences(run, up.read(path))),
    }


def _summary(trace: up.Trace) -> dict[str, Any]:
    return {
        **trace.info.model_dump(include={"cycle", "complete", "first_step", "last_step", "frameworks", "event_count"}),
        "digest": hashlib.sha256(json.dumps(trace.events.to_pylist()).encode()).hexdigest(),
    }


def _differences(run: up.Run, again: up.Run) -> list[str]:
    """Describe what a second read of a run returned that the first did not."""
    cycles = [[trace.info.cycle for trace in each.traces] for each in (run, again)]
    if cycles[0] != cycles[1]:
        return [f"the first read has the cycles {cycles[0]}, the second {cycles[1]}"]
    changed = [
        first.info.cycle
        for first, second in zip(run.traces, again.traces, strict=True)
        if first.info != second.info or not first.events.equals(second.events)
    ]
    steps = run.steps is None if again.steps is None else run.steps is not None and run.steps.equals(again.steps)
    texts = [f"cycle {cycle} differs between two reads" for cycle in changed]
    texts += [] if steps else ["the steps differ between two reads"]
    return texts + ([] if run.manifests == again.manifests else ["the manifests differ between two reads"])


if __name__ == "__main__":
    main()
