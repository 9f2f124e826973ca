"""Files and directories as runs: those of this package, and native traces through the backends' normalizers."""

from __future__ import annotations

from unified_profiler.readers.dispatch import read

__all__ = ["read"]
