"""The records that describe traces and runs: pydantic at the edges, one small object per cycle or per run."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from unified_profiler.model.schema import SCHEMA_VERSION

Int64 = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
Number = Annotated[int, Field(ge=0, lt=1 << 31)]
"""A rank, a cycle or a step: what a column of 32 bits holds."""
Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class Record(BaseModel):
    """Frozen; fields that a newer version added are kept, not refused."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)


class Failure(Record):
    """Something that went wrong while profiling and did not stop the training."""

    source: str
    """The backend's name, `handler`, `output`, `profiler`, `region` or `schedule`."""
    action: str
    """What was being done: arm, start, stop, normalize, write, call..."""
    error: str
    """Type and text of the exception."""
    cycle: Number | None = None
    step: Number | None = None
    """The first step in which it happened."""
    kept: str | None = None
    """Where the native files of a capture that could not be read are kept."""
    count: Count = 1
    """How often it happened in this cycle."""


class StepSignal(Record):
    """How steps were found in a script that does not say where they end."""

    name: str
    sources: Count = 1
    """How many objects sent the signal; one of them, the anchor, ended steps."""
    switches: tuple[str, ...] = ()
    """Changes of the signal during the run, in words."""


class TraceInfo(Record):
    """What a trace is: one cycle of one rank."""

    schema_version: Int64 = SCHEMA_VERSION
    run: str = ""
    cycle: Number = 0
    rank: Number = 0
    world_size: Int64 = 1
    host: str = ""
    pid: Int64 = 0
    frameworks: dict[str, str] = Field(default_factory=dict)
    """Version of each recorded framework; empty text where it is not known."""
    complete: bool = True
    """False where the end of the cycle is missing: the loop was left early, or there were too many events."""
    start_ns: Int64 = 0
    end_ns: Int64 = 0
    first_step: Int64 | None = None
    last_step: Int64 | None = None
    event_count: Count = 0
    source: str | None = None
    """The file it was read from, for traces made by other programs."""
    step_signal: StepSignal | None = None
    hints: tuple[str, ...] = ()
    """What would have made this trace better, in words."""
    native: dict[str, Any] = Field(default_factory=dict)
    """What each native profiler said about its capture as a whole, by backend."""


class CycleRecord(Record):
    """A cycle of the run and the file that holds it."""

    file: Annotated[str, Field(pattern=r"^cycle-\d{5,}\.parquet$")]
    info: TraceInfo


OverheadUnclear: TypeAlias = Literal["few_steps", "falling", "scatter"]


class Overhead(Record):
    """Median step times by phase: what recording cost, from the run itself."""

    unrecorded_step_ns: Int64 | None = None
    recorded_step_ns: Int64 | None = None
    unrecorded_step_count: Count = 0
    """Steps that `unrecorded_step_ns` is the median of."""
    unclear: OverheadUnclear | None = "few_steps"
    """Why `ratio` does not show the cost of recording: too few unrecorded steps, step times that still fall as those
    of a warm-up do, or steps that differ more among themselves. None if it shows it."""

    @property
    def ratio(self) -> float | None:
        """Recorded over unrecorded, or None where one of them is missing."""
        if not self.unrecorded_step_ns or not self.recorded_step_ns:
            return None
        return self.recorded_step_ns / self.unrecorded_step_ns


class Manifest(Record):
    """What one rank did in a run: `rank-NNNNN/manifest.json`.

    `cycles` and `overhead` are not in that file, which is written anew after each cycle: they are found in the files
    that grow with the run, `cycles.jsonl` and `steps.arrow`, when it is read.
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
    """Names the running system, and so the clock: ranks in several containers of one machine share it."""
    pid: Int64
    python: str
    platform: str
    processor: str | None = None
    """Its model; None where it is not known."""
    command: tuple[str, ...] = ()
    """Secrets in it are masked; empty if it was not to be recorded."""
    settings: dict[str, Any] = Field(default_factory=dict)
    started_ns: Int64
    ended_ns: Int64 | None = None
    """None while the run goes on, or if its process was killed."""
    step_count: Count = 0
    cycles: tuple[CycleRecord, ...] = ()
    failures: tuple[Failure, ...] = ()
    overhead: Overhead = Overhead()
    step_signal: StepSignal | None = None
    hints: tuple[str, ...] = ()
