"""Reads the files that MindSpore's host profiler writes (FRAMEWORK directories)."""

from __future__ import annotations
