"""Converts Kineto traces to events, without importing PyTorch."""

from __future__ import annotations
