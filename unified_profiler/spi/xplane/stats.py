"""Converts stats of XPlane files to JSON: attributes of an event, and metadata of a whole recording."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from unified_profiler.spi.wire import VARINT, fields_of
from unified_profiler.spi.xplane.planes import Space

FLOW_STATS = frozenset({"_p", "_pt", "_c", "_ct", "flow"})
"""Ids of producers and consumers, by which viewers draw arrows between threads."""

_OPTIONS = {
    1: ("include_dataset_ops", bool),
    2: ("host_tracer_level", int),
    3: ("device_tracer_level", int),
    4: ("python_tracer_level", int),
    5: ("version", int),
    7: ("enable_hlo_proto", bool),
    8: ("start_timestamp_ns", int),
    9: ("duration_ms", int),
}
"""Name and type of the fields of ProfileOptions that are kept, by number."""


def attributes_json(stats: Mapping[str, Any]) -> str | None:
    """Return stats as a JSON object, None if there are none."""
    return msgspec.json.encode(_storable(stats)).decode() if stats else None


def recording_metadata(space: Space) -> dict[str, Any]:
    """Return the stats of the planes and of the recording, its options, hosts, errors and warnings."""
    task = dict(space.task)
    options = _profile_options(task.pop("profile_options", b""))
    return {
        "file": space.path.name,
        "hostnames": space.hosts,
        "errors": space.errors,
        "warnings": space.warnings,
        "planes": {plane.name: {} if plane.stats is space.task else _storable(plane.stats) for plane in space.planes},
        "task": _storable(task),
        "profile_options": options,
    }


def _profile_options(encoded: bytes) -> dict[str, int]:
    values = {field.number: field.value for field in fields_of(encoded) if field.wire_type == VARINT}
    return {name: kind(values.get(number, 0)) for number, (name, kind) in _OPTIONS.items()}


def _storable(stats: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _storable_value(value) for name, value in stats.items()}


def _storable_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return str(value) if isinstance(value, float) and not isfinite(value) else value
