"""One event as a record: for JSON at the edges and for the published JSON Schema, never in a hot path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, Field, create_model

from unified_profiler.model.records import Record
from unified_profiler.model.schema import COLUMNS, SCHEMA_VERSION, Column, EventTable


def _python_type(column: Column) -> Any:
    if pa.types.is_dictionary(column.type):
        kind: type = str
    else:
        kind = float if pa.types.is_floating(column.type) else int
    return kind if not column.nullable else kind | None


def _fields() -> dict[str, Any]:
    return {
        column.name: (_python_type(column), Field(None if column.nullable else ..., description=column.meaning))
        for column in COLUMNS
    }


Event: type[BaseModel] = create_model("Event", __base__=Record, __doc__="One row of the event table.", **_fields())
"""The record of one event; its fields are the columns of the event schema."""


def records(table: EventTable) -> Iterator[BaseModel]:
    """Yield every event of a table as a validated record."""
    for row in table.to_pylist():
        yield Event.model_validate(row)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of an event, as published in the documentation."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"unified_profiler event, schema version {SCHEMA_VERSION}",
        **{key: value for key, value in Event.model_json_schema().items() if key != "title"},
    }
