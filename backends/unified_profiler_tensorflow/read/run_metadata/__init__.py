"""Converts the RunMetadata and StepStats of v1 sessions, and timelines made of them, to events."""

from __future__ import annotations
