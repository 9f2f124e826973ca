"""Pydantic records that describe traces and runs, one small object per cycle or run."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from unified_profiler.model.schema import SCHEMA_VERSION

Int64 = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
Number = Annotated[int, Field(ge=0, lt=1 << 31)]
"""A rank, cycle or step, in a column of 32 bits."""
Count = Annotated[int, Field(ge=0, lt=1 << 63)]


_PYDANTIC = frozenset(dir(BaseModel)) - {"model_dump", "model_dump_json"}


class Record(BaseModel):
    """Frozen base class; it accepts and keeps fields added by newer versions."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    def __dir__(self) -> list[str]:
        """List the fields, our own methods, and of pydantic's only those that return the content."""
        return sorted({name for name in super().__dir__() if name not in _PYDANTIC or name.startswith("__")})


class Failure(Record):
    """An error while profiling that did not stop the training."""

    source: str
    """The backend's name, `handler`, `output`, `profiler`, `region` or `schedule`."""
    action: str
    """The failed action: arm, start, stop, normalize, write, call..."""
    error: str
    """Type and message of the exception."""
    cycle: Number | None = None
    step: Number | None = None
    """The first step in which it happened."""
    kept: str | None = None
    """Location of the native files of an unreadable capture."""
    option: str | None = None
    """The option that the source does not support, if that is all: everything else is recorded."""
    count: Count = 1
    """How often it happened in this cycle."""


class StepSignal(Record):
    """The signal by which steps were detected in a script that does not mark them."""

    name: str
    sources: Count = 1
    """Number of objects that sent the signal; one of them, the anchor, ended steps."""
    switches: tuple[str, ...] = ()
    """Descriptions of signal changes during the run."""


class TraceInfo(Record):
    """Description of a trace, which is one cycle of one rank."""

    schema_version: Int64 = SCHEMA_VERSION
    run: str = ""
    cycle: Number = 0
    rank: Number = 0
    world_size: Int64 = 1
    host: str = ""
    pid: Int64 = 0
    frameworks: dict[str, str] = Field(default_factory=dict)
    """Version of each recorded framework; empty if unknown."""
    complete: bool = True
    """False if the end of the cycle is missing: the loop was left early, or there were too many events."""
    start_ns: Int64 = 0
    end_ns: Int64 = 0
    first_step: Int64 | None = None
    last_step: Int64 | None = None
    event_count: Count = 0
    source: str | None = None
    """The file it was read from, for traces from other programs."""
    step_signal: StepSignal | None = None
    hints: tuple[str, ...] = ()
    """Sentences on how to record a better trace."""
    native: dict[str, Any] = Field(default_factory=dict)
    """Capture-wide metadata of each native profiler, by backend."""


class CycleRecord(Record):
    """A cycle of the run and its file."""

    file: Annotated[str, Field(pattern=r"^cycle-\d{5,}\.parquet$")]
    info: TraceInfo


OverheadUnclear: TypeAlias = Literal["starved", "few_steps", "falling", "scatter"]
"""`starved` is never in a manifest: the counters of the traces show it."""


class Overhead(Record):
    """Median step times with and without recording, measured in the run itself."""

    unrecorded_step_ns: Int64 | None = None
    recorded_step_ns: Int64 | None = None
    unrecorded_step_count: Count = 0
    """Number of steps in `unrecorded_step_ns`."""
    unclear: OverheadUnclear | None = "few_steps"
    """Why `ratio` does not show the cost of recording: too few unrecorded steps, step times that still fall as in a
    warm-up, or steps that vary more than the difference. None if it does."""
    steady_step: Count | None = None
    """If step times still fall: the step from which they no longer do; None if there is no such step."""

    @property
    def ratio(self) -> float | None:
        """Recorded over unrecorded step time; None if either is missing."""
        if not self.unrecorded_step_ns or not self.recorded_step_ns:
            return None
        return self.recorded_step_ns / self.unrecorded_step_ns


class Manifest(Record):
    """Description of one rank of a run: `rank-NNNNN/manifest.json`.

    That file is rewritten after each cycle and does not contain `cycles` and `overhead`. A reader takes them from the
    files that grow with the run, `cycles.jsonl` and `steps.arrow`.
    """

    schema_version: Int64 = SCHEMA_VERSION
    profiler_version: str
    run: str
    rank: Number
    local_rank: Int64 | None = None
    world_size: Int64 = 1
    job: str | None = None
    host: str
    machine: str | None = None
    """Identifies the running system and its clock, which containers of one machine share."""
    pid: Int64
    python: str
    platform: str
    processor: str | None = None
    """Model name; None if unknown."""
    command: tuple[str, ...] = ()
    """Command line with secrets masked; empty if it was not recorded."""
    settings: dict[str, Any] = Field(default_factory=dict)
    started_ns: Int64
    ended_ns: Int64 | None = None
    """None while the process runs, or if it was killed."""
    start_up_ns: Int64 | None = None
    """Time from the start of the script to its first step; None if the script marks its steps, or it is not known."""
    exit_code: Int64 | None = None
    """Exit code of the script; None if the run was not recorded by `unified-profiler run`, or did not end."""
    step_count: Count = 0
    cycles: tuple[CycleRecord, ...] = ()
    failures: tuple[Failure, ...] = ()
    overhead: Overhead = Overhead()
    step_signal: StepSignal | None = None
    hints: tuple[str, ...] = ()
