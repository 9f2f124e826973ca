"""Converts stats of XPlane files to JSON: attributes of an event, and metadata of a whole recording."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from unified_profiler.spi.protobuf import message_classes
from unified_profiler.spi.xplane.planes import Space

FLOW_STATS = frozenset({"_p", "_pt", "_c", "_ct", "flow"})
"""Ids of producers and consumers, by which viewers draw arrows between threads."""

_OPTIONS = message_classes(
    "unified_profiler.xplane.options",
    {
        "ProfileOptions": {
            "include_dataset_ops": (1, "bool"),
            "host_tracer_level": (2, "uint32"),
            "device_tracer_level": (3, "uint32"),
            "python_tracer_level": (4, "uint32"),
            "version": (5, "uint32"),
            "enable_hlo_proto": (7, "bool"),
            "start_timestamp_ns": (8, "uint64"),
            "duration_ms": (9, "uint64"),
        }
    },
)["ProfileOptions"]


def attributes_json(stats: Mapping[str, Any]) -> str | None:
    """Return stats as a JSON object, None if there are none."""
    return msgspec.json.encode(_storable(stats)).decode() if stats else None


def recording_metadata(space: Space) -> dict[str, Any]:
    """Return the stats of the planes and of the recording, its options, hosts, errors and warnings."""
    task = dict(space.task)
    options = _OPTIONS.FromString(task.pop("profile_options", b""))
    return {
        "file": space.path.name,
        "hostnames": space.hosts,
        "errors": space.errors,
        "warnings": space.warnings,
        "planes": {plane.name: {} if plane.stats is space.task else _storable(plane.stats) for plane in space.planes},
        "task": _storable(task),
        "profile_options": {field.name: getattr(options, field.name) for field in options.DESCRIPTOR.fields},
    }


def _storable(stats: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _storable_value(value) for name, value in stats.items()}


def _storable_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return str(value) if isinstance(value, float) and not isfinite(value) else value
