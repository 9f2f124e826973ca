"""Setting two runs side by side: of one framework, or of the same model in two."""

from __future__ import annotations

from unified_profiler.comparison.diff import Diff, diff

__all__ = ["Diff", "diff"]
