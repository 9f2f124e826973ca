from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from unified_profiler.model.event import Event, json_schema
from unified_profiler.model.schema import EVENT_SCHEMA
from unified_profiler.testing import TraceBuilder

PUBLISHED = Path(__file__).parents[3] / "docs" / "reference" / "event.schema.json"


def test_the_record_has_the_columns_of_the_schema() -> None:
    assert list(Event.model_fields) == EVENT_SCHEMA.names


def test_required_fields_are_the_columns_that_are_never_null() -> None:
    required = {name for name, field in Event.model_fields.items() if field.is_required()}
    assert required == {field.name for field in EVENT_SCHEMA if not field.nullable}


def test_rows_become_records() -> None:
    trace = TraceBuilder().op("conv", 0, 10, bytes=5).build()
    (event,) = map(Event.model_validate, trace.events.to_pylist())
    assert event.model_dump()["bytes"] == 5


def test_a_row_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(ValidationError):
        Event.model_validate({"id": "first"})


def test_the_published_json_schema_is_this_one() -> None:
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == json_schema()
