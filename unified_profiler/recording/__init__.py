"""Records everything between `start()` and `stop()`: cycles, steps, regions, API calls, hardware counters, failures."""

from __future__ import annotations
