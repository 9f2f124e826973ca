"""Reads runs from files and directories: those of this package, and native traces through the backends."""

from __future__ import annotations

from unified_profiler.readers.dispatch import read
from unified_profiler.readers.listing import run_table

__all__ = ["read", "run_table"]
