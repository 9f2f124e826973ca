"""`read`: detects what a path contains and calls the matching reader."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from unified_profiler import registry
from unified_profiler.engine import DuckDBEngine, Engine
from unified_profiler.errors import TraceFormatError
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.foreign import first_bytes, peek_bytes, read_bytes
from unified_profiler.model.records import Manifest
from unified_profiler.model.run import CYCLES, MANIFEST, PENDING, STEPS, Run, is_run
from unified_profiler.model.storage import read_parquet, read_record
from unified_profiler.readers.chrome import read_chrome
from unified_profiler.readers.native import read_native, recognized_by
from unified_profiler.readers.pending import read_finished
from unified_profiler.readers.rank_files import read_rank_files
from unified_profiler.readers.remote import is_url, read_url

_OPENING_BYTES = 1 << 16
_PARQUET = b"PAR1"
_RECORD_ONE = "Record one with `unified-profiler run train.py`."
_OWN_JSON = re.compile(rb'\s*\{\s*"unified_profiler"\s*:')


@checked_keywords
def read(path: str | os.PathLike[str], *, engine: Engine | None = None) -> Run:
    """Read traces from a file, a directory or a URL.

    Args:
        path: One of

            * a run directory, or the manifest, the steps or the directory of one of its ranks: the whole run; recorded
              cycles that are not traces yet (`deliver="deferred"`) are finished first;
            * a directory of runs (the `output_dir` of a profiler): the run that was started last, unless it has no
              trace and another one has;
            * a `.parquet` file: a run of that one trace;
            * a `.json` or `.json.gz` file that `write` made: a run of the traces in it;
            * a native trace of one of the backends' frameworks, written by any program: a run of one trace;
            * a directory of such traces, one or several per rank: a run of all of them. The rank of a trace is the
              recorded one, else the number after `rank` in its name, else its position among the other names. Several
              traces of one rank are its cycles. Whatever no backend recognizes is ignored, and named in the log;
            * the URL of a run directory or of a directory of runs, such as `hdfs://name-node/profile`, which the
              engine reads.

        engine: The engine that reads a URL: `DuckDBEngine`, the default, reads those of this machine (`file://`),
            `SparkEngine` those that its Spark can access. A plain path needs none.

    Raises:
        TraceFormatError: The path does not exist, or is damaged, empty or of another kind.
        SchemaVersionError: A newer version of this package wrote it.
        EngineError: The engine cannot read the URL.
    """
    if isinstance(path, str) and is_url(path):
        return read_url(path, engine or DuckDBEngine())
    path = Path(path)
    if not path.exists():
        msg = f"{path} does not exist. {_accepted()} {_RECORD_ONE}"
        raise TraceFormatError(msg)
    return _read_directory(path) if path.is_dir() else _read_file(path)


def _read_directory(path: Path) -> Run:
    if is_run(path):
        return read_finished(path)
    if path.name.startswith("rank-") and is_run(path.absolute().parent):
        return read_finished(path.absolute().parent)
    if runs := runs_in(path):
        return read_finished(default_run(runs))
    backend = recognized_by(path)
    if backend is not None:
        return Run(traces=(read_native(path, backend),))
    run = None if any(map(_is_own_file, path.iterdir())) else read_rank_files(path)
    if run is None:
        names = sorted(entry.name for entry in path.iterdir())
        content = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") if names else "nothing"
        msg = f"The directory {path} holds no run; it holds {content}. {_accepted()} {_RECORD_ONE}"
        raise TraceFormatError(msg)
    return run


def _is_own_file(path: Path) -> bool:
    """Return whether this package wrote the file, which then contains its own ranks and cycles."""
    opening = peek_bytes(path, _OPENING_BYTES) if path.is_file() else b""
    return opening.startswith(_PARQUET) or _OWN_JSON.match(opening) is not None


def runs_in(directory: Path) -> list[Path]:
    """Return the runs in a directory, the newest first."""
    runs = [folder for folder in directory.iterdir() if folder.is_dir() and is_run(folder)]
    return sorted(runs, key=_began, reverse=True)


def default_run(runs: Sequence[Path]) -> Path:
    """Return the run that is read if a directory of runs is given: the first one with a trace, else the first one."""
    return next(filter(_has_trace, runs), runs[0])


def _has_trace(run: Path) -> bool:
    return any(run.glob("rank-*/cycle-*.parquet")) or any(run.glob(f"rank-*/{PENDING}"))


def _began(run: Path) -> tuple[int, str]:
    """Return when a run began, and its name; without a readable manifest it is older than any other."""
    try:
        return read_record(min(run.glob(f"rank-*/{MANIFEST}")), Manifest).started_ns, run.name
    except (ValueError, OSError):
        return 0, run.name


def _read_file(path: Path) -> Run:
    run = path.absolute().parent.parent
    if path.name in {MANIFEST, STEPS, CYCLES} and is_run(run):
        return read_finished(run)
    opening = _read_opening(path)
    if opening.startswith(_PARQUET) or path.suffix == ".parquet":
        return Run(traces=(read_parquet(path),))
    if _OWN_JSON.match(opening):
        return Run(traces=tuple(read_chrome(path, read_bytes(path))))
    backend = recognized_by(path)
    if backend is None:
        msg = f"{path} is {_description(path, opening)}. {_accepted()}"
        raise TraceFormatError(msg)
    return Run(traces=(read_native(path, backend),))


def _read_opening(path: Path) -> bytes:
    opening = first_bytes(path, _OPENING_BYTES)
    if not opening.strip():
        msg = f"{path} is empty. The program that wrote it may have been stopped too early; record again."
        raise TraceFormatError(msg)
    return opening


def _description(path: Path, opening: bytes) -> str:
    if opening.lstrip()[:1] not in {b"{", b"["}:
        return f"not a trace: it begins with {opening[:16]!r}"
    try:
        document = msgspec.json.decode(read_bytes(path))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return f"damaged JSON, perhaps truncated while it was written: {error}"
    if isinstance(document, dict):
        return f"JSON, but not a trace: an object with the keys {sorted(document)[:8]}"
    return f"JSON, but not a trace: an array of {len(document)} elements"


def _accepted() -> str:
    backends = ", ".join(entry.name for entry in registry.known())
    return (
        "Expected a run directory or a directory of runs, a .parquet, .json or .json.gz file of unified_profiler, "
        f"or a native trace of {backends}, or a directory of native traces, one or several per rank."
    )
