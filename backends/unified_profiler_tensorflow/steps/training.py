"""Defines the evidence by which a call counts as training."""

from __future__ import annotations

from enum import IntEnum


class TrainingEvidence(IntEnum):
    """Evidence that a call trains; the value is the priority of its step hook."""

    OPTIMIZER = 0
    GRADIENT = 1
    NONE = 3
