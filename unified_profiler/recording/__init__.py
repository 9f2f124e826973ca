"""What happens between `start()` and `stop()`: phases, cycles, steps, regions, API calls, hardware, failures."""

from __future__ import annotations
