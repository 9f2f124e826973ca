"""The messages of XPlane files as protobuf classes, to build files and to decode them independently of the reader."""

from __future__ import annotations

from unified_profiler.spi.protobuf import message_classes

MESSAGES = message_classes(
    "unified_profiler.tests.xplane",
    {  # strings are declared as bytes, since they are not always valid UTF-8
        "XSpace": {"planes": (1, "repeated XPlane"), "hostnames": (4, "repeated bytes")},
        "XPlane": {
            "name": (2, "bytes"),
            "lines": (3, "repeated XLine"),
            "event_metadata": (4, "repeated EventEntry"),
            "stat_metadata": (5, "repeated StatEntry"),
            "stats": (6, "repeated bytes"),
        },
        "XLine": {
            "id": (1, "int64"),
            "name": (2, "bytes"),
            "timestamp_ns": (3, "int64"),
            "events": (4, "repeated XEvent"),
            "display_name": (11, "bytes"),
        },
        "XEvent": {
            "metadata_id": (1, "int64"),
            "offset_ps": (2, "int64"),
            "duration_ps": (3, "int64"),
            "stats": (4, "repeated XStat"),
        },
        "EventEntry": {"key": (1, "int64"), "value": (2, "XEventMetadata")},
        "XEventMetadata": {"name": (2, "bytes"), "stats": (5, "repeated bytes")},
        "StatEntry": {"key": (1, "int64"), "value": (2, "XStatMetadata")},
        "XStatMetadata": {"name": (2, "bytes")},
        "XStat": {"metadata_id": (1, "int64"), "value": (4, "int64")},
    },
)
