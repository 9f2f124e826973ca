"""Runs an unmodified script under the profiler, detects its steps and records some of them."""

from __future__ import annotations
