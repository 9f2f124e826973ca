"""Run: all traces of a job (ranks times cycles), in a run directory or in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.errors import ConfigurationError, TraceFormatError, UsageError
from unified_profiler.masking import mask_text
from unified_profiler.model.clocks import CLOCKS, Clocks
from unified_profiler.model.foreign import inside, read_bytes
from unified_profiler.model.nesting import int_column, with_column
from unified_profiler.model.notebook import traces_html
from unified_profiler.model.overhead import overhead_of
from unified_profiler.model.records import CycleRecord, Manifest, TraceInfo
from unified_profiler.model.steps import read_steps, steps_of_cycle
from unified_profiler.model.storage import read_parquet, read_record
from unified_profiler.model.trace import Trace
from unified_profiler.presentation.text import counted

MANIFEST = "manifest.json"
STEPS = "steps.arrow"
CYCLES = "cycles.jsonl"
PENDING = "pending"
NATIVE = "native"
_RANK = re.compile("rank-([0-9]{5,9})")


@dataclass(frozen=True)
class Run:
    """All traces of a job.

    Attributes:
        path: The run directory; None for a run in memory, from single files, or from a URL.
        traces: Sorted by rank and cycle.
        manifests: The manifest of each rank.
        steps: Start, end and phase of every step of every rank, recorded or not.
        clocks: The offsets between the ranks' clocks, if known; all times are already corrected for them.
        url: The URL that an engine read the run from, if any.
    """

    traces: Sequence[Trace]
    path: Path | None = None
    manifests: dict[int, Manifest] = field(default_factory=dict)
    steps: pa.Table | None = None
    clocks: Clocks | None = None
    url: str | None = None

    @classmethod
    def of(cls, source: Trace | Run) -> Run:
        """Return a run unchanged, and a trace as a run of its own.

        Raises:
            UsageError: The source is neither a Trace nor a Run.
        """
        if isinstance(source, Run):
            return source
        if isinstance(source, Trace):
            return cls(traces=(source,))
        msg = (
            f"Expected a Trace or a Run, found {type(source).__name__}. "
            "Take one of `Profiler.traces`, or read a file or a run directory with unified_profiler.read(path)."
        )
        raise UsageError(msg)

    @property
    def ranks(self) -> list[int]:
        """The ranks with traces or a manifest."""
        return sorted({trace.info.rank for trace in self.traces} | self.manifests.keys())

    def select(self, *, rank: int | None = None, cycle: int | None = None) -> Run:
        """Return the traces, manifests and steps of one rank, of one cycle, or of one cycle of one rank.

        The steps of a cycle are those that it recorded, and the unrecorded ones before them.

        Raises:
            ConfigurationError: The run has no such rank or cycle.
        """
        if rank is None and cycle is None:
            return self
        traces = tuple(t for t in self.traces if rank in {None, t.info.rank} and cycle in {None, t.info.cycle})
        ranks = {trace.info.rank for trace in traces}
        if cycle is None:
            ranks |= {number for number in self.manifests if number == rank}
        if not ranks:
            raise ConfigurationError(self._missing(rank, cycle))
        parts = [_RankPart.of(self, number, cycle) for number in sorted(ranks)]
        return replace(
            self,
            traces=traces,
            manifests={part.manifest.rank: part.manifest for part in parts if part.manifest is not None},
            steps=None if self.steps is None else pa.concat_tables(part.steps for part in parts),
            clocks=None if self.clocks is None else self.clocks.of_ranks(ranks),
        )

    def by_clocks(self, clocks: Clocks) -> Run:
        """Return the run with all times corrected; unchanged if it has traces that the clocks do not cover."""
        present = {(trace.info.rank, trace.info.cycle) for trace in self.traces}
        if not present <= set(clocks.traces):
            return self
        clock_of = {clock.rank: clock for clock in clocks.ranks if clock.is_off}
        traces = tuple(t.by_clock(clock_of[t.info.rank]) if t.info.rank in clock_of else t for t in self.traces)
        return replace(self, traces=traces, steps=_corrected(self.steps, clocks), clocks=clocks)

    def __repr__(self) -> str:
        """Return a one-line summary."""
        return f"<{self._title}>"

    def _repr_html_(self) -> str:
        """Return an HTML summary for notebooks, without reading the events."""
        failures = [
            (rank, failure) for rank, manifest in sorted(self.manifests.items()) for failure in manifest.failures
        ]
        return traces_html(self._title, [trace.info for trace in self.traces], failures)

    @property
    def _title(self) -> str:
        return f"Run {self._location}: {counted(len(self.traces), 'trace')} of {counted(len(self.ranks), 'rank')}"

    @property
    def _location(self) -> str:
        files = (trace.file or trace.info.source for trace in self.traces)
        return mask_text(self.url or "") or str(self.path or next(filter(None, files), "in memory"))

    def _missing(self, rank: int | None, cycle: int | None) -> str:
        parts = (("rank", rank), ("cycle", cycle))
        wanted = " ".join(f"{name} {number}" for name, number in parts if number is not None)
        present = ", ".join(f"rank {trace.info.rank} cycle {trace.info.cycle}" for trace in self.traces)
        return f"The run {self._location} has no trace of {wanted}. It holds: {present or 'no trace at all'}."


@dataclass(frozen=True)
class _RankPart:
    """The manifest and the steps of one rank, or of one cycle of it."""

    manifest: Manifest | None
    steps: pa.Table | None

    @classmethod
    def of(cls, run: Run, rank: int, cycle: int | None) -> _RankPart:
        manifest = run.manifests.get(rank)
        steps = None if run.steps is None else run.steps.filter(pc.equal(run.steps.column("rank"), rank))
        if cycle is None:
            return cls(manifest, steps)
        info = next(t.info for t in run.traces if (t.info.rank, t.info.cycle) == (rank, cycle))
        if steps is not None:
            steps = steps_of_cycle(steps, first=info.first_step, last=info.last_step)
        return cls(None if manifest is None else _manifest_of_cycle(manifest, info, steps), steps)


def _manifest_of_cycle(manifest: Manifest, info: TraceInfo, steps: pa.Table | None) -> Manifest:
    """Return the manifest limited to one cycle, with failures that belong to no cycle."""
    first_step_start = [] if steps is None else steps.column("start_ns").slice(0, 1).to_pylist()
    update = {
        "started_ns": min([info.start_ns, *first_step_start]),
        "ended_ns": info.end_ns,
        "step_count": 0 if steps is None else len(steps),
        "failures": tuple(failure for failure in manifest.failures if failure.cycle in {None, info.cycle}),
    }
    cycles = [record for record in manifest.cycles if record.info.cycle == info.cycle]
    return completed(manifest.model_copy(update=update), cycles, steps)


def _corrected(steps: pa.Table | None, clocks: Clocks) -> pa.Table | None:
    if steps is None:
        return None
    rank = int_column(steps, "rank")
    for name in ("start_ns", "end_ns"):
        times = int_column(steps, name).copy()
        for clock in (clock for clock in clocks.ranks if clock.is_off):
            of_rank = rank == clock.rank
            times[of_rank] = clock.corrected(times[of_rank])
        steps = with_column(steps, name, times)
    return steps


def is_run(path: Path) -> bool:
    """Return whether a directory is a run directory."""
    return any(path.glob(f"rank-*/{MANIFEST}")) or any(path.glob("rank-*/cycle-*.parquet"))


def cycle_name(cycle: int) -> str:
    """Return the name of a cycle's files and folders."""
    return f"cycle-{cycle:05d}"


def rank_folders(run: Path) -> dict[int, Path]:
    """Return the folders of a run's ranks.

    Raises:
        TraceFormatError: A folder has an invalid name, or is a link out of the run.
    """
    folders = [inside(run, folder) for folder in sorted(run.glob("rank-*")) if folder.is_dir()]
    return {_rank_of(folder): folder for folder in folders}


def read_run(path: Path) -> Run:
    """Read a run directory. A rank that was killed lacks only its last cycle.

    Raises:
        TraceFormatError: The directory is not a run, or one of its files is damaged or a link out of it.
    """
    if not is_run(path):
        msg = f"{path} is not a run directory: it holds no rank-NNNNN/{MANIFEST}."
        raise TraceFormatError(msg)
    ranks = [_RankFiles.read(path, folder) for folder in rank_folders(path).values()]
    steps = [rank.steps for rank in ranks if rank.steps is not None]
    run = Run(
        path=path,
        traces=sorted_traces(trace for rank in ranks for trace in rank.traces),
        manifests={rank.manifest.rank: rank.manifest for rank in ranks if rank.manifest is not None},
        steps=pa.concat_tables(steps) if steps else None,
    )
    file = path / CLOCKS
    return run.by_clocks(read_record(inside(path, file), Clocks)) if file.exists() else run


@dataclass(frozen=True)
class _RankFiles:
    """The content of a rank's folder."""

    traces: list[Trace]
    manifest: Manifest | None
    steps: pa.Table | None

    @classmethod
    def read(cls, run: Path, folder: Path) -> _RankFiles:
        traces = [read_parquet(inside(run, file)) for file in sorted(folder.glob("cycle-*.parquet"))]
        manifest_file, steps_file = folder / MANIFEST, folder / STEPS
        manifest = read_record(inside(run, manifest_file), Manifest) if manifest_file.exists() else None
        steps = None
        if steps_file.exists():
            rows = 0 if manifest is None else manifest.step_count
            steps = read_steps(steps_file, read_bytes(inside(run, steps_file)), rows=rows)
        if manifest is not None:
            manifest = completed(manifest, cycle_records(traces), steps)
        return cls(traces, manifest, steps)


def sorted_traces(traces: Iterable[Trace]) -> tuple[Trace, ...]:
    """Sort traces by rank and cycle."""
    return tuple(sorted(traces, key=lambda trace: (trace.info.rank, trace.info.cycle)))


def cycle_records(traces: Iterable[Trace]) -> list[CycleRecord]:
    """Return the records of the traces that have files."""
    return [CycleRecord(file=Path(str(t.file)).name, info=t.info) for t in traces if t.file is not None]


def completed(manifest: Manifest, cycles: Sequence[CycleRecord], steps: pa.Table | None) -> Manifest:
    """Return a manifest with the cycles and the overhead, which its file does not contain."""
    overhead = manifest.overhead if steps is None else overhead_of(steps)
    return manifest.model_copy(update={"cycles": tuple(cycles), "overhead": overhead})


def _rank_of(folder: Path) -> int:
    match = _RANK.fullmatch(folder.name)
    if match is not None and folder.name == f"rank-{int(match[1]):05d}":
        return int(match[1])
    msg = f"{folder} is not a valid name for the folder of a rank: expected rank-NNNNN with five digits. Rename it."
    raise TraceFormatError(msg)
