"""Finds the calls of PyTorch's public API that can be traced."""

from __future__ import annotations
