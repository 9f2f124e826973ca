"""Drives PyTorch's native profiler."""

from __future__ import annotations
