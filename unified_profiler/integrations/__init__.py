"""Callbacks and hooks that call `Profiler.step()` for you, in the trainers that people use."""

from __future__ import annotations
