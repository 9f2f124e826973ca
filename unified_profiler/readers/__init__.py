"""Reads runs from files and directories: those of this package, and native traces through the backends."""

from __future__ import annotations

from unified_profiler.readers.dispatch import read

__all__ = ["read"]
