"""Maps native operators to canonical ones and computes FLOPs, without importing TensorFlow."""

from __future__ import annotations
