"""Reads runs from URLs through an engine: from a distributed file system, an object store or this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote

import pyarrow as pa

from unified_profiler.engine import Engine, Events
from unified_profiler.errors import TraceFormatError
from unified_profiler.model.clocks import CLOCKS, Clocks
from unified_profiler.model.records import CycleRecord, Manifest
from unified_profiler.model.run import CYCLES, MANIFEST, STEPS, Run, completed, sorted_traces
from unified_profiler.model.schema import schema_of
from unified_profiler.model.steps import read_steps
from unified_profiler.model.storage import parse_record
from unified_profiler.model.trace import Trace


def is_url(path: str) -> bool:
    """Return whether a path has a scheme, such as `hdfs://`."""
    return "://" in path


def read_url(url: str, engine: Engine) -> Run:
    """Read a run directory, or the last started run in a directory of runs. Events are read at first use.

    Raises:
        TraceFormatError: There is no run, or one of its files is damaged.
        EngineError: The engine cannot read from there.
    """
    root, manifests = _find_run((unquote(url) if url.startswith("file://") else url).rstrip("/"), engine)
    cycles = {
        _folder(file): _cycle_records(file, text) for file, text in engine.files(f"{root}/rank-*/{CYCLES}").items()
    }
    steps = {
        _folder(file): read_steps(file, text, rows=manifests[_folder(file)].step_count)
        for file, text in sorted(engine.files(f"{root}/rank-*/{STEPS}").items())
        if _folder(file) in manifests
    }
    traces = [_trace(f"{root}/{folder}", cycle, engine) for folder in cycles for cycle in cycles[folder]]
    run = Run(
        url=root,
        traces=sorted_traces(traces),
        manifests={
            manifest.rank: completed(manifest, cycles.get(folder, []), steps.get(folder))
            for folder, manifest in manifests.items()
        },
        steps=pa.concat_tables(steps.values()) if steps else None,
    )
    for file, text in engine.files(f"{root}/{CLOCKS}*").items():
        run = run.by_clocks(parse_record(file, text, Clocks))
    return run


def _find_run(url: str, engine: Engine) -> tuple[str, dict[str, Manifest]]:
    """Return the URL of the run, and its manifests by the names of the rank folders."""
    manifests = _manifests(engine.files(f"{url}/rank-*/{MANIFEST}"))
    if manifests:
        return url, {folder: manifest for (_, folder), manifest in manifests.items()}
    manifests = _manifests(engine.files(f"{url}/*/rank-*/{MANIFEST}"))
    if not manifests:
        msg = (
            f"{url} holds no run. Expected the URL of a run directory, which has rank-NNNNN/{MANIFEST}, "
            "or of a directory of runs."
        )
        raise TraceFormatError(msg)
    newest, _ = max(manifests, key=lambda key: (manifests[key].started_ns, key))
    return f"{url}/{newest}", {folder: manifest for (run, folder), manifest in manifests.items() if run == newest}


def _manifests(files: Mapping[str, bytes]) -> dict[tuple[str, str], Manifest]:
    """Return manifests by the names of the run and of the rank folder."""
    return {PurePosixPath(file).parts[-3:-1]: parse_record(file, files[file], Manifest) for file in sorted(files)}  # type: ignore[misc]


def _folder(file: str) -> str:
    return PurePosixPath(file).parent.name


def _cycle_records(file: str, text: bytes) -> list[CycleRecord]:
    """Return the distinct cycles of a list, without its last line, which may still be being written."""
    *lines, _ = text.split(b"\n")
    records = [parse_record(f"{file}, line {number},", line, CycleRecord) for number, line in enumerate(lines, start=1)]
    return list({record.file: record for record in records}.values())


def _trace(folder: str, cycle: CycleRecord, engine: Engine) -> Trace:
    def load(columns: Sequence[str]) -> pa.Table:
        sql = f"select {', '.join(columns)} from events order by id"  # noqa: S608  names of the event schema
        return engine.run(sql, tables={"events": Events((trace,))}).cast(schema_of(columns))

    trace = Trace(load, cycle.info, file=f"{folder}/{cycle.file}")
    return trace
