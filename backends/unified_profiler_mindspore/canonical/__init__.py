"""Maps MindSpore operators to canonical ones and counts FLOPs, without importing MindSpore."""

from __future__ import annotations
