"""Reads RunMetadata and StepStats of v1 sessions, and timelines made of them."""

from __future__ import annotations
