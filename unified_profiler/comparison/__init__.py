"""Setting two runs side by side: of one framework, or of the same model in two."""

from __future__ import annotations

from unified_profiler.comparison.diff import diff
from unified_profiler.comparison.records import Diff

__all__ = ["Diff", "diff"]
