"""Reads XPlane files (`*.xplane.pb`), which the profilers of TensorFlow and JAX write, without importing a framework.

Here belongs what is a property of the format or of XLA, whichever framework wrote the file: finding and opening files,
planes, lines as lanes, events with their stats as columns, embedded HLO programs and the ends of their instructions.
The meaning of a framework's own event names belongs in its backend.

A backend's reader calls `planes.open_space`, then `events.read_events`, and describes each of the distinct
`EventDescription`s once.
"""

from __future__ import annotations
