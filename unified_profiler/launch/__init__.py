"""Running an unmodified script under the profiler: finding its steps, windows that always end with a result."""

from __future__ import annotations
