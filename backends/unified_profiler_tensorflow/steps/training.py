"""Defines the evidence by which a call counts as training."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias


class TrainingEvidence(IntEnum):
    """Evidence that a call trains; the value is the priority of its step hook."""

    OPTIMIZER = 0
    GRADIENT = 1
    NONE = 3


CALL_BEGINS, CALL_ENDS = "call begins", "call ends"
CallSignal: TypeAlias = TrainingEvidence | str
"""The end of a call, by the evidence that it trained, or `CALL_BEGINS`."""
