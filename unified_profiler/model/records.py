"""The records that describe traces and runs: pydantic at the edges, one small object per cycle or per run."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from unified_profiler.model.schema import SCHEMA_VERSION


class Record(BaseModel):
    """Frozen; fields that a newer version added are kept, not refused."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Failure(Record):
    """Something that went wrong while profiling and did not stop the training."""

    source: str
    """The backend's name, `handler`, `output`, `profiler`, `region` or `schedule`."""
    action: str
    """What was being done: arm, start, stop, normalise, write, call..."""
    error: str
    """Type and text of the exception."""
    cycle: int | None = None
    step: int | None = None
    kept: str | None = None
    """Where the native files of a capture that could not be read are kept."""


class StepSignal(Record):
    """How steps were found in a script that does not say where they end."""

    name: str
    sources: int = 1
    """How many objects sent the signal; one of them, the anchor, ended steps."""
    switches: tuple[str, ...] = ()
    """Changes of the signal during the run, in words."""


class TraceInfo(Record):
    """What a trace is: one cycle of one rank."""

    schema_version: int = SCHEMA_VERSION
    run: str = ""
    cycle: int = 0
    rank: int = 0
    world_size: int = 1
    host: str = ""
    pid: int = 0
    frameworks: dict[str, str] = Field(default_factory=dict)
    """Version of each recorded framework; empty text where it is not known."""
    complete: bool = True
    """False where the loop was left before the cycle's last step."""
    start_ns: int = 0
    end_ns: int = 0
    first_step: int | None = None
    last_step: int | None = None
    event_count: int = 0
    source: str | None = None
    """The file it was read from, for traces made by other programs."""
    step_signal: StepSignal | None = None
    hints: tuple[str, ...] = ()
    """What would have made this trace better, in words."""
    native: dict[str, Any] = Field(default_factory=dict)
    """What each native profiler said about its capture as a whole, by backend."""


class CycleRecord(Record):
    """A cycle of the run and the file that holds it."""

    file: str
    info: TraceInfo


class Overhead(Record):
    """Median step times by phase: what recording cost, from the run itself."""

    unrecorded_step_ns: int | None = None
    recorded_step_ns: int | None = None

    @property
    def ratio(self) -> float | None:
        """Recorded over unrecorded, or None where one of them is missing."""
        if not self.unrecorded_step_ns or not self.recorded_step_ns:
            return None
        return self.recorded_step_ns / self.unrecorded_step_ns


class Manifest(Record):
    """What one rank did in a run: `rank-NNNNN/manifest.json`."""

    schema_version: int = SCHEMA_VERSION
    profiler_version: str
    run: str
    rank: int
    local_rank: int | None = None
    world_size: int = 1
    job: str | None = None
    host: str
    machine: str | None = None
    """Names the running system, and so the clock: ranks in several containers of one machine share it."""
    pid: int
    python: str
    platform: str
    processor: str | None = None
    """Its model; None where it is not known."""
    command: tuple[str, ...] = ()
    """Secrets in it are masked; empty if it was not to be recorded."""
    settings: dict[str, Any] = Field(default_factory=dict)
    started_ns: int
    ended_ns: int | None = None
    """None while the run goes on, or if its process was killed."""
    step_count: int = 0
    cycles: tuple[CycleRecord, ...] = ()
    failures: tuple[Failure, ...] = ()
    overhead: Overhead = Overhead()
    step_signal: StepSignal | None = None
    hints: tuple[str, ...] = ()
