"""Lists the runs in a directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from unified_profiler.engine import Result
from unified_profiler.errors import TraceFormatError, UnifiedProfilerError
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.run import Run, read_run
from unified_profiler.model.statements import statement
from unified_profiler.readers.dispatch import default_run, runs_in

_COLUMNS = pa.schema(
    {
        "run": pa.string(),
        "started": pa.string(),
        "program": pa.string(),
        "frameworks": pa.string(),
        "rank_count": pa.int64(),
        "steps": pa.string(),
        "event_count": pa.int64(),
        "state": pa.string(),
        "default": pa.bool_(),
    }
)
_HEADINGS = {
    "run": "Run",
    "default": "Default",
    "started": "Started",
    "state": "State",
    "program": "Program",
    "frameworks": "Frameworks",
    "rank_count": "Ranks",
    "steps": "Steps",
    "event_count": "Events",
}


def run_table(directory: str | os.PathLike[str], *, row_limit: int | None = None) -> Result:
    """List the runs in a directory, the newest first. `default` marks the one that `read` takes of the directory.

    Args:
        directory: The directory, such as the `output_dir` of a Profiler.
        row_limit: The most runs to list.

    Raises:
        TraceFormatError: There is no such directory, or no run in it.
    """
    directory = Path(directory)
    runs = runs_in(directory) if directory.is_dir() else []
    if not runs:
        state = "holds no run" if directory.is_dir() else "is no directory"
        msg = f"{directory} {state}. Expected a directory of runs: record one with `unified-profiler run train.py`."
        raise TraceFormatError(msg)
    default = default_run(runs)
    rows = [{**_described(path), "default": path == default} for path in runs[:row_limit]]
    shown = statement("runs_shown", shown_count=len(rows), all_count=len(runs)).with_text("table")
    remarks = (shown,) if len(rows) < len(runs) else ()
    footer = tuple(each.text for each in remarks)
    return Result(table=pa.Table.from_pylist(rows, _COLUMNS), headings=_HEADINGS, footer=footer, remarks=remarks)


def _described(path: Path) -> dict[str, Any]:
    try:
        run = read_run(path)
    except UnifiedProfilerError as error:
        return {"run": path.name, "state": f"damaged: {error}"}
    infos, manifest = [trace.info for trace in run.traces], next(iter(run.manifests.values()), None)
    started = manifest.started_ns if manifest else min((info.start_ns for info in infos), default=0)
    return {
        "run": path.name,
        "started": datetime.fromtimestamp(started / 1e9).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
        "program": " ".join(manifest.command) if manifest else None,
        "frameworks": ", ".join(sorted({name for info in infos for name in info.frameworks})) or None,
        "rank_count": len(run.ranks),
        "steps": recorded_steps(infos) or None,
        "event_count": sum(info.event_count for info in infos),
        "state": _state(run),
    }


def recorded_steps(infos: Iterable[TraceInfo]) -> str:
    """Return the recorded steps, such as `2-4, 7-9`; empty without steps."""
    return ", ".join(dict.fromkeys(_steps(info) for info in infos if info.first_step is not None))


def _steps(info: TraceInfo) -> str:
    return str(info.first_step) if info.first_step == info.last_step else f"{info.first_step}-{info.last_step}"


def _state(run: Run) -> str:
    failures = sum(len(manifest.failures) for manifest in run.manifests.values())
    if failures:
        return f"failures: {failures}"
    codes = [manifest.exit_code for manifest in run.manifests.values() if manifest.exit_code]
    if codes:
        return f"failed, exit code: {codes[0]}"
    if not run.traces:
        return "no trace"
    if any(manifest.ended_ns is None for manifest in run.manifests.values()):
        return "running or killed"
    return "complete" if all(trace.info.complete for trace in run.traces) else "incomplete"
