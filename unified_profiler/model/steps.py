"""The table of all steps of a run, recorded or not, and its file `steps.arrow`, which grows with every cycle."""

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
_PHASE_NAMES = [phase.value for phase in _PHASES]
_FILE_SCHEMA = STEP_SCHEMA.set(4, pa.field("phase", pa.dictionary(pa.int8(), pa.string()), nullable=False))


def phase_codes(phases: list[Phase]) -> npt.NDArray[np.int8]:
    """Return the codes of phases for `step_table`."""
    return np.array([_PHASES.index(phase) for phase in phases], np.int8)


def step_table(*, rank: int, first: int, start_ns: Ints, end_ns: Ints, phase: npt.NDArray[np.int8]) -> pa.Table:
    """Build the table of consecutive steps of one rank, beginning with step number `first`."""
    columns = [
        pa.repeat(pa.scalar(rank, pa.int32()), len(end_ns)),
        pa.array(np.arange(first, first + len(end_ns), dtype=np.int32)),
        pa.array(start_ns, pa.int64()),
        pa.array(end_ns, pa.int64()),
        pa.DictionaryArray.from_arrays(pa.array(phase, pa.int8()), pa.array(_PHASE_NAMES)).cast(pa.string()),
    ]
    return pa.table(columns, schema=STEP_SCHEMA)


def steps_of_cycle(steps: pa.Table, *, first: int | None, last: int | None) -> pa.Table:
    """Return the steps that one cycle of one rank recorded, and the unrecorded ones before them.

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
    """A growing file of steps: an Arrow stream, which is readable at any time up to its last complete batch.

    An append that fails or is interrupted leaves `step_count` unchanged; the next one overwrites its partial output.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = 0, 0

    @property
    def step_count(self) -> int:
        """The number of steps in the file."""
        return self._written[1]

    def append(self, steps: pa.Table) -> None:
        """Append the steps that follow those in the file.

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
    """Encode steps as a batch of the stream, preceded by the schema if it is the first."""
    *columns, phase = (column.combine_chunks() for column in steps.columns)
    names, stream = pa.array(_PHASE_NAMES), io.BytesIO()
    codes = pc.index_in(phase, names).cast(pa.int8())
    batch = pa.record_batch([*columns, pa.DictionaryArray.from_arrays(codes, names)], schema=_FILE_SCHEMA)
    pa.ipc.new_stream(stream, _FILE_SCHEMA).write_batch(batch)
    return stream.getvalue()[0 if first else _FILE_SCHEMA.serialize().size :]


def read_steps(path: Path | str, content: bytes, *, rows: int = 0) -> pa.Table:
    """Read the steps of a rank.

    Args:
        path: The file, for messages.
        content: Its content.
        rows: The least number of steps, from the manifest.

    Raises:
        TraceFormatError: It is damaged, or has fewer steps.
    """
    return read_stream(path, content, _FILE_SCHEMA, rows=rows).cast(STEP_SCHEMA)
