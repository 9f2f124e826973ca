"""Compares two runs: of one framework, or of the same model in two frameworks."""

from __future__ import annotations

from unified_profiler.comparison.diff import Diff, diff

__all__ = ["Diff", "diff"]
