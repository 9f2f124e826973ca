"""The pydantic record of one event, for JSON output and the published JSON Schema; never used in hot paths."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pydantic import BaseModel, Field, create_model

from unified_profiler.model.records import Record
from unified_profiler.model.schema import COLUMNS, SCHEMA_VERSION, Column


def _field(column: Column) -> tuple[Any, Any]:
    scalar: type = float if pa.types.is_floating(column.type) else int
    python_type = str if pa.types.is_dictionary(column.type) else scalar
    if column.nullable:
        return python_type | None, Field(None, description=column.meaning)
    return python_type, Field(..., description=column.meaning)


_FIELDS: dict[str, Any] = {column.name: _field(column) for column in COLUMNS}
Event: type[BaseModel] = create_model("Event", __base__=Record, __doc__="One row of the event table.", **_FIELDS)
"""The record of one event; its fields are the columns of the event schema."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of an event, as published in the documentation."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"unified_profiler event, schema version {SCHEMA_VERSION}",
        **{key: value for key, value in Event.model_json_schema().items() if key != "title"},
    }
