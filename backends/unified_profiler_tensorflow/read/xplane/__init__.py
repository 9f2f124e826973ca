"""Converts XPlane files to events: the meaning of TensorFlow's event names and stats.

The format itself is read by `unified_profiler.spi.xplane`.
"""

from __future__ import annotations
