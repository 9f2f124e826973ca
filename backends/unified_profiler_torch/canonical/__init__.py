"""Maps native operators to canonical ones, and counts FLOPs, without importing PyTorch."""

from __future__ import annotations
