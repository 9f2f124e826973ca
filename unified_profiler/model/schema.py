"""The event schema: the single definition of the columns of an event and their meaning.

The pydantic record, the JSON Schema and the documentation's table are derived from `COLUMNS` or tested equal to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import pyarrow as pa

from unified_profiler.model.arrow_arrays import as_array, repeated_number, repeated_text

SCHEMA_VERSION = 1

EventTable: TypeAlias = pa.Table
"""A table with exactly the columns of `EVENT_SCHEMA`, in their order."""

TEXT = pa.dictionary(pa.int32(), pa.string())
"""Dictionary-encoded text: every distinct value is stored once."""


class Layer(str, Enum):
    """The layer of the system that an event belongs to."""

    APPLICATION = "application"
    API = "api"
    FRAMEWORK = "framework"
    RUNTIME = "runtime"
    HARDWARE = "hardware"


class Kind(str, Enum):
    """The kind of an event."""

    STEP = "step"
    REGION = "region"
    API_CALL = "api_call"
    MODULE = "module"
    OP = "op"
    KERNEL = "kernel"
    COPY = "copy"
    COLLECTIVE = "collective"
    COMPILE = "compile"
    RUNTIME = "runtime"
    MEMORY = "memory"
    COUNTER = "counter"


@dataclass(frozen=True)
class Column:
    """One column of the event table."""

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = True


COLUMNS: tuple[Column, ...] = (
    Column("id", pa.int64(), "number of the event in its trace", nullable=False),
    Column("parent_id", pa.int64(), "the event that encloses it on the same thread"),
    Column("name", TEXT, "native name, unchanged", nullable=False),
    Column("op", TEXT, "canonical operator of the kernel itself: ONNX name, or x: name"),
    Column("origin", TEXT, "canonical operator of the forward operator or layer that caused the event"),
    Column("direction", TEXT, "forward, backward, update or recompute"),
    Column("layer", TEXT, "application, api, framework, runtime or hardware", nullable=False),
    Column("kind", TEXT, "step, region, api_call, module, op, kernel, copy, ...", nullable=False),
    Column("framework", TEXT, "torch, tensorflow, mindspore; null for the facade's own events"),
    Column("start_ns", pa.int64(), "start, nanoseconds since the Unix epoch", nullable=False),
    Column("duration_ns", pa.int64(), "duration", nullable=False),
    Column("self_ns", pa.int64(), "duration minus that of the children on the same thread", nullable=False),
    Column("depth", pa.int16(), "how many events enclose it", nullable=False),
    Column("step", pa.int32(), "the step it began in, on a device the step that launched it; null outside steps"),
    Column("cycle", pa.int32(), "the cycle of the trace"),
    Column("rank", pa.int32(), "the rank of the process"),
    Column("host", TEXT, "name of the machine"),
    Column("pid", pa.int64(), "process id, or device number of a device's lane"),
    Column("tid", pa.int64(), "OS thread id, or a stable lane number"),
    Column("thread", TEXT, "name of the thread or lane"),
    Column("device", TEXT, "cpu:0, cuda:0, npu:0"),
    Column("stream", pa.int64(), "stream of the device"),
    Column("correlation_id", pa.int64(), "links a launch and its kernel or copy"),
    Column("sequence_id", pa.int64(), "links a forward operator and its backward"),
    Column("input_shapes", TEXT, "compact JSON, as recorded"),
    Column("input_types", TEXT, "compact JSON, as recorded"),
    Column("output_shapes", TEXT, "compact JSON, as recorded"),
    Column("output_types", TEXT, "compact JSON, as recorded"),
    Column("bytes", pa.int64(), "memory of the event; negative when freed"),
    Column("flops", pa.int64(), "floating-point operations"),
    Column("value", pa.float64(), "value of a counter"),
    Column("stack", TEXT, "Python stack, where recorded"),
    Column("module", TEXT, "qualified path of the layer in the model"),
    Column("attributes", TEXT, "JSON object of everything else that the native profiler recorded"),
)

JSON_COLUMNS = frozenset({"input_shapes", "input_types", "output_shapes", "output_types", "attributes"})
"""Text columns that contain JSON."""

EVENT_SCHEMA: pa.Schema = pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in COLUMNS])

_ZERO_BY_DEFAULT = frozenset({"id", "self_ns", "depth"})  # filled in by nesting


def event_table(columns: Mapping[str, Any], *, rows: int) -> EventTable:
    """Build an event table from some of its columns.

    A column may be an Arrow array, a numpy array, a list, or a scalar for all rows. Omitted columns are null; `id`,
    `self_ns` and `depth` are zero until `nest` fills them.

    Raises:
        ValueError: A column is unknown or has the wrong length.
    """
    unknown = columns.keys() - set(EVENT_SCHEMA.names)
    if unknown:
        msg = f"The event schema has no column {sorted(unknown)}; its columns are {EVENT_SCHEMA.names}."
        raise ValueError(msg)
    nulls = {dtype: _repeat(None, dtype, rows) for dtype in {field.type for field in EVENT_SCHEMA}}
    arrays = [_column(field, columns.get(field.name), rows, nulls[field.type]) for field in EVENT_SCHEMA]
    return pa.table(arrays, schema=EVENT_SCHEMA)


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Return the event schema reduced to some columns, in the given order."""
    return pa.schema([EVENT_SCHEMA.field(name) for name in columns])


def empty_table() -> EventTable:
    """Return an event table without rows."""
    return event_table({}, rows=0)


def _column(field: pa.Field, value: Any, rows: int, nulls: pa.Array) -> pa.Array | pa.ChunkedArray:
    if value is None and field.name in _ZERO_BY_DEFAULT:
        value = 0
    if value is None:
        return nulls
    if isinstance(value, (str, int, float)):
        return _repeat(value, field.type, rows)
    array = as_array(value)
    if len(array) != rows:
        msg = f"Column {field.name} has {len(array)} rows, expected {rows}."
        raise ValueError(msg)
    if array.type == field.type:
        return array
    if field.type == TEXT:
        return array.cast(pa.string()).dictionary_encode()
    return array.cast(field.type)


def _repeat(value: Any, dtype: pa.DataType, rows: int) -> pa.Array:
    return repeated_text(value, rows) if dtype == TEXT else repeated_number(value, dtype, rows)
