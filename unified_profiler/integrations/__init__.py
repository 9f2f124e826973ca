"""Callbacks and hooks that call `Profiler.step()` in common trainers, and the magics of IPython."""

from __future__ import annotations
