"""Callbacks and hooks that call `Profiler.step()` in common trainers."""

from __future__ import annotations
