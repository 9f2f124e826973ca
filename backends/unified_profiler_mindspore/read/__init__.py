"""Converts MindSpore profiles to events, without importing MindSpore."""

from __future__ import annotations
