"""Maps native operators to canonical ones, and counts FLOPs, without importing TensorFlow."""

from __future__ import annotations
