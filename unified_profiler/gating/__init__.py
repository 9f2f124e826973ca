"""Performance gate: compares runs before and after a change and returns a verdict for a CI build."""

from __future__ import annotations

from unified_profiler.gating.gate import Gate, gate
from unified_profiler.gating.records import Verdict

__all__ = ["Gate", "Verdict", "gate"]
