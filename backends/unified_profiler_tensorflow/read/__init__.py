"""Converts XPlane files, RunMetadata and timelines to events, without importing TensorFlow."""

from __future__ import annotations
