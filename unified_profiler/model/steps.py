"""The table of all steps of a run, recorded or not, and the file `steps.arrow`, which grows cycle by cycle."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.arrow_files import read_stream
from unified_profiler.model.nesting import Ints
from unified_profiler.schedule import Phase

STEP_SCHEMA = pa.schema(
    [
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("start_ns", pa.int64(), nullable=False),
        pa.field("end_ns", pa.int64(), nullable=False),
        pa.field("phase", pa.string(), nullable=False),
    ]
)
_PHASES = tuple(Phase)
_IN_FILE = STEP_SCHEMA.set(4, pa.field("phase", pa.dictionary(pa.int8(), pa.string()), nullable=False))


def phase_codes(phases: list[Phase]) -> npt.NDArray[np.int8]:
    """Return the number of each phase, as `step_table` takes them."""
    return np.array([_PHASES.index(phase) for phase in phases], np.int8)


def step_table(*, rank: int, first: int, start_ns: Ints, end_ns: Ints, phase: npt.NDArray[np.int8]) -> pa.Table:
    """Build the table of consecutive steps of one rank, of which the first has the given number."""
    names = pa.array([each.value for each in _PHASES])
    columns = [
        pa.repeat(pa.scalar(rank, pa.int32()), len(end_ns)),
        pa.array(np.arange(first, first + len(end_ns), dtype=np.int32)),
        pa.array(start_ns, pa.int64()),
        pa.array(end_ns, pa.int64()),
        pa.DictionaryArray.from_arrays(pa.array(phase, pa.int8()), names).cast(pa.string()),
    ]
    return pa.table(columns, schema=STEP_SCHEMA)


def steps_of_rank(steps: pa.Table, rank: int) -> pa.Table:
    """Return the steps of one rank."""
    return steps.filter(pc.equal(steps.column("rank"), rank))


def steps_of_cycle(steps: pa.Table, *, first: int | None, last: int | None) -> pa.Table:
    """Return the steps of one cycle of one rank: those that it recorded, and the unrecorded ones that led up to them.

    Args:
        steps: All steps of the rank, in order.
        first: The first step that the cycle recorded; None if it recorded none.
        last: The last one.
    """
    if first is None or last is None:
        return steps.slice(0, 0)
    number = steps.column("step").to_numpy()
    recorded = pc.equal(steps.column("phase"), Phase.RECORD.value).to_numpy()
    earlier = number[recorded & (number < first)]
    begin = earlier.max() + 1 if len(earlier) else 0
    return steps.filter(pa.array((number >= begin) & (number <= last)))


class StepFile:
    """A file of steps that grows: an Arrow stream, which stays readable at every moment but within its last batch.

    An append that fails or is interrupted, at whatever moment, leaves `step_count` as it was; the next one replaces
    what it may have written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = 0, 0

    @property
    def step_count(self) -> int:
        """The number of steps in the file."""
        return self._written[1]

    def append(self, steps: pa.Table) -> None:
        """Add the steps that follow those in the file.

        Raises:
            OSError: They cannot be written.
        """
        size, count = self._written
        content = _batch(steps, first=not size) if len(steps) or not size else b""
        with self._path.open("ab") as file:
            file.truncate(size)
            file.write(content)
        self._written = size + len(content), count + len(steps)


def _batch(steps: pa.Table, *, first: bool) -> bytes:
    """Encode steps as a batch of the stream, behind the schema if it is the first; one without steps may be that."""
    stream = io.BytesIO()
    pa.ipc.new_stream(stream, _IN_FILE).write_batch(_encoded(steps))
    return stream.getvalue()[0 if first else _IN_FILE.serialize().size :]


def read_steps(path: Path | str, content: bytes, *, rows: int = 0) -> pa.Table:
    """Read the steps of a rank.

    Args:
        path: The file, for messages.
        content: What it holds.
        rows: How many steps there are at least, as the manifest has it.

    Raises:
        TraceFormatError: It is damaged, or has fewer steps.
    """
    return read_stream(path, content, _IN_FILE, rows=rows).cast(STEP_SCHEMA)


def _encoded(steps: pa.Table) -> pa.RecordBatch:
    *columns, phase = (column.combine_chunks() for column in steps.columns)
    names = pa.array([each.value for each in _PHASES])
    codes = pc.index_in(phase, names).cast(pa.int8())
    return pa.record_batch([*columns, pa.DictionaryArray.from_arrays(codes, names)], schema=_IN_FILE)
