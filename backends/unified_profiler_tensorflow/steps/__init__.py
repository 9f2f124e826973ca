"""Detects the ends of steps in scripts that do not call `step()`."""

from __future__ import annotations
