"""Turns a cycle that has ended into a Trace, in memory or in the run directory, now or later."""

from __future__ import annotations
