"""Finds the calls of MindSpore's public API that can be traced."""

from __future__ import annotations
