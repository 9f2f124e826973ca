"""Judging whether a program got slower: runs before and after a change, with a verdict that a build can act upon."""

from __future__ import annotations

from unified_profiler.gating.gate import Gate, gate
from unified_profiler.gating.records import Verdict

__all__ = ["Gate", "Verdict", "gate"]
