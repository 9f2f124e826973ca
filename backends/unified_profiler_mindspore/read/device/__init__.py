"""Reads the files that MindSpore's analysis writes for an accelerator (ASCEND_PROFILER_OUTPUT directories)."""

from __future__ import annotations
