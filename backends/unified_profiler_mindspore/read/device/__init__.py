"""Reads what MindSpore's analysis writes of an accelerator (ASCEND_PROFILER_OUTPUT directories)."""

from __future__ import annotations
