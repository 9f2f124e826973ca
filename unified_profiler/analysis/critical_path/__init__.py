"""The critical path of steps, and predictions of step times from the same dependency graph."""

from __future__ import annotations

from unified_profiler.analysis.critical_path.path import CriticalPath, critical_path
from unified_profiler.analysis.critical_path.prediction import WhatIf, what_if

__all__ = ["CriticalPath", "WhatIf", "critical_path", "what_if"]
